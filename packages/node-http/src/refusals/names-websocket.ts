import type { IncomingMessage } from 'node:http'

/** Whether the `Upgrade` of a message names WebSocket, and nothing beside it. */
export const namesWebSocket = ({ headers }: IncomingMessage): boolean => headers.upgrade?.toLowerCase() === 'websocket'
