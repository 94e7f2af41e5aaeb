import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { SUBPROTOCOL_LINES } from '@boxoffice/protocol'
import { expect, onTestFinished, test } from 'vitest'
import { type WebSocket, WebSocketServer } from 'ws'
import type { Access } from '../../src/dataplane/access.ts'
import { openLineSocket } from '../../src/dataplane/line-socket.ts'
import { openProcessSocket } from '../../src/dataplane/process-socket.ts'

const KINDS = ['process', 'lines'] as const
const ignore = () => {}
const isOk = { type: 'auth_ok', session_id: 's', sandbox_id: 'b', expires_at: '', granted_capabilities: [] }
const atStart = { stdout: { offset: 0, oldest: 0 }, stderr: { offset: 0, oldest: 0 }, stdin: { offset: 0 } }

/** An agent that does with each connection what its number says. */
async function agentOf(connected: (ws: WebSocket, number: number) => void) {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  onTestFinished(() => server.close())
  let connections = 0
  server.on('connection', (ws) => connected(ws, ++connections))
  await once(server, 'listening')
  const dataplaneUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const access = async () =>
    ({
      session: { sandboxId: 'sbx_a' },
      agent: { dataplaneUrl },
      token: 't',
      expiresAt: performance.now() + 600_000,
      kid: 'k',
      refused: ignore,
    }) as unknown as Access
  return { options: { access, monotonic: () => performance.now(), signal: undefined } }
}

/** Tells in both protocols that the process is there; without `isReady` the connection drops before, of a process at its `start` frame. */
function answer(ws: WebSocket, isReady: boolean): void {
  const isLines = ws.protocol === SUBPROTOCOL_LINES
  const say = (frame: object) => ws.send(JSON.stringify(frame), { binary: isLines })
  say(isOk)
  if (isReady)
    return say(isLines ? { type: 'ready', process_id: 'p', run: 'r', ...atStart } : { type: 'ready', pid: 1, attached: true, ...atStart })
  if (isLines) ws.terminate()
  else ws.once('message', () => ws.terminate())
}

test.each(KINDS)('a connection of %s that drops again while it is mended is mended once', async (kind) => {
  const sockets: WebSocket[] = []
  const pinged = Promise.withResolvers<WebSocket>()
  const { options } = await agentOf((ws, number) => {
    sockets.push(ws)
    answer(ws, number !== 2)
    if (number > 2) ws.on('message', (data) => String(data).includes('"ping"') && pinged.resolve(ws))
  })
  const closed = Promise.withResolvers<unknown>()
  const handlers = { ready: ignore, output: ignore, exit: ignore, line: ignore, closed: closed.resolve }
  if (kind === 'process') {
    const socket = await openProcessSocket({ ...options, handlers, start: { kind: 'exec', frame: { command: 'cat' } } })
    socket.write(Buffer.from('x'))
  } else {
    const socket = await openLineSocket({ ...options, handlers, path: '/processes/p/ws', takeover: false })
    socket.send('x')
  }
  sockets[0]?.terminate()
  // It asks every second what has arrived. By then a second mend would have connected too.
  const ws = await pinged.promise
  expect(sockets).toHaveLength(3)
  ws.close(1000)
  expect(await closed.promise).toBeUndefined()
})

test.each(KINDS)('a socket of %s that is left while it is connected again closes that connection', async (kind) => {
  const first = Promise.withResolvers<WebSocket>()
  const second = Promise.withResolvers<WebSocket>()
  const { options } = await agentOf((ws, number) => {
    if (number === 2) return second.resolve(ws)
    answer(ws, true)
    first.resolve(ws)
  })
  const closed = Promise.withResolvers<unknown>()
  const handlers = { ready: ignore, output: ignore, exit: ignore, line: ignore, closed: closed.resolve }
  const leaves = new AbortController()
  const common = { ...options, handlers, signal: leaves.signal }
  if (kind === 'process') await openProcessSocket({ ...common, start: { kind: 'exec', frame: { command: 'true' } } })
  else await openLineSocket({ ...common, path: '/processes/p/ws', takeover: false })
  const dropped = await first.promise
  dropped.terminate()
  const ws = await second.promise
  leaves.abort()
  expect(await closed.promise).toBeUndefined()
  answer(ws, true)
  expect((await once(ws, 'close'))[0]).toBe(1000)
})
