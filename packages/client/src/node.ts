import { setDefaultWebSocket, type WebSocketConstructor } from './network/socket.ts'

// Published as the condition `node` of the package: Node 20 has no WebSocket of its own. Later ones do not load `ws`.
if (globalThis.WebSocket === undefined) setDefaultWebSocket((await import('ws')).WebSocket as unknown as WebSocketConstructor)

export * from './index.ts'
