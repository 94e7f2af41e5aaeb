import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { WebSocketServer } from 'ws'
import type { Access } from '../../src/dataplane/access.ts'
import { openLineSocket } from '../../src/dataplane/line-socket.ts'
import { openProcessSocket } from '../../src/dataplane/process-socket.ts'
import { openWatchSocket } from '../../src/dataplane/watch-socket.ts'

const ignore = () => {}

test('an agent whose frame is no JSON loses its connection, and ends nothing else', async () => {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  onTestFinished(() => server.close())
  server.on('connection', (ws) => ws.send('{', { binary: ws.protocol.includes('lines') }))
  await once(server, 'listening')
  const dataplaneUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const access = async () =>
    ({ session: { sandboxId: 'sbx_a' }, agent: { dataplaneUrl }, token: 't', expiresAt: 0, kid: 'k', refused: ignore }) as unknown as Access
  const common = { access, monotonic: () => performance.now(), signal: undefined }
  const handlers = { ready: ignore, output: ignore, exit: ignore, line: ignore, change: ignore, overflow: ignore, closed: ignore }
  const opened = await Promise.allSettled([
    openProcessSocket({ ...common, handlers, start: { kind: 'exec', frame: { command: 'true' } } }),
    openLineSocket({ ...common, handlers, path: '/processes/p/ws', takeover: false }),
    openWatchSocket({ ...common, handlers, query: '?path=' }),
  ])
  for (const one of opened) expect(one).toMatchObject({ status: 'rejected', reason: { code: 'BACKEND_UNAVAILABLE' } })
})
