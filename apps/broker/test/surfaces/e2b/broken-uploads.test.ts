import { once } from 'node:events'
import { connect } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { API_KEY, type BrokerProcess, ENROLL_TOKEN, startBrokerProcess } from '../../support/broker-process.ts'
import { startFakeAgent } from '../../support/fake-agent.ts'
import { removeDir, tempDir } from '../../support/test-broker.ts'

/** Uploads that break before anybody reads them, against a broker in a process of its own: it must not end with them. */
let dataDir: string
let broker: BrokerProcess
let own: Record<string, string>

beforeAll(async () => {
  dataDir = tempDir()
  broker = await startBrokerProcess(dataDir)
  const agent = await startFakeAgent({ brokerUrl: broker.url, enrollToken: ENROLL_TOKEN })
  const made = await fetch(`${broker.url}/compat/e2b/v2/sandboxes`, {
    method: 'POST',
    headers: { 'x-api-key': API_KEY, 'content-type': 'application/json' },
    body: '{}',
  })
  const { sandboxID, envdAccessToken } = (await made.json()) as { sandboxID: string; envdAccessToken: string }
  own = { 'e2b-sandbox-id': sandboxID, 'x-access-token': envdAccessToken }
  // It is dialled in vain, again and again.
  await agent.close()
})
afterAll(async () => {
  await broker?.stop()
  removeDir(dataDir)
})

/** Sends the head of a request of 1000 bytes and, once the broker reads its body, the beginning of that; then it goes. */
async function breakOff(path: string, headers: Record<string, string>, beginning: string): Promise<void> {
  const socket = connect(Number(broker.port), '127.0.0.1')
  const fields = { host: 'broker', expect: '100-continue', 'content-length': '1000', ...own, ...headers }
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}`)
  socket.write(`POST /compat/e2b${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`)
  const [answer] = await once(socket, 'data')
  expect(String(answer)).toMatch(/^HTTP\/1.1 100 /)
  socket.end(beginning)
  // An answer is nothing that it waits for.
  socket.on('error', () => {}).resume()
  await once(socket, 'close')
}

const health = async (): Promise<number> => (await fetch(`${broker.url}/compat/e2b/health`, { headers: own })).status
const FORM = { 'content-type': 'multipart/form-data; boundary=b' }
const PART = '--b\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\nx'

test.each([
  ['content', '/files?path=a', {}, 'x'],
  ['content with a path that is refused', '/files?path=%00', {}, 'x'],
  ['content that is not gzip', '/files?path=a', { 'content-encoding': 'gzip' }, 'no gzip at all'],
  ['a form', '/files?path=a', FORM, PART],
  ['a form with a path that is refused', '/files?path=%00', FORM, PART],
])('%s, broken off while the agent is dialled: the broker goes on', async (_what, path, headers, beginning) => {
  await breakOff(path, { 'content-type': 'application/octet-stream', ...headers }, beginning)
  expect([await health(), await health()]).toEqual([204, 204])
})
