import { once } from 'node:events'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterEach, expect, test } from 'vitest'
import { startTestBroker, type TestBroker } from '../../support/test-broker.ts'

let broker: TestBroker
afterEach(() => broker.stop())

test('[2-44] an upgrade to a path that makes no URL is refused at the RPC port, and the broker goes on', async () => {
  broker = await startTestBroker({ boxRpcPort: 0 })
  const socket = connect(broker.boxRpcPort ?? 0, '127.0.0.1')
  await once(socket, 'connect')
  socket.write('GET // HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
  expect(await text(socket)).toMatch(/^HTTP\/1.1 404 /)
  expect((await broker.get('/healthz')).status).toBe(200)
})
