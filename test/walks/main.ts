import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { WebSocket } from 'ws'
import { brokerClient, type Grant } from '../bench/http.ts'
import { INSPECTABLE, openInspector } from '../bench/inspector.ts'
import { startProgram } from '../e2e/support/program.ts'

/**
 * `npm run walks`: prints the files of the broker that a request enters, for the counts in docs/architecture.md. A file that only some
 * of the rounds enter belongs to a timer, not to the request.
 */
const ROUNDS = 5
const ENROLL = 'walks-enroll-token-0123456789abcdefghij'
const KEY = 'walks-api-key-0123456789abcdefghijklmnopqrs'

const openSocket = async ({ sandbox, token }: Grant): Promise<WebSocket> => {
  const socket = new WebSocket(`${sandbox.ws_base_url}/exec/ws`, 'boxoffice.v1.binary', { headers: { authorization: `Bearer ${token}` } })
  await once(socket, 'open')
  return socket
}

const data = mkdtempSync(join(tmpdir(), 'walks-'))
await using stack = new AsyncDisposableStack()
stack.defer(() => rmSync(data, { recursive: true, force: true }))
const broker = await startProgram(['broker', '--port', '0', '--data-dir', data, '--enroll-token', ENROLL, '--api-key', KEY], INSPECTABLE)
stack.defer(async () => void (await broker.stop()))
const whom = ['--broker-url', broker.ready.broker_url, '--enroll-token', ENROLL]
const agent = await startProgram(['agent', ...whom, '--port', '0', '--data-dir', data, '--provider', 'local', '--destroy-on-exit'])
stack.defer(async () => void (await agent.stop()))
const client = brokerClient(broker.ready.broker_url, KEY)
stack.defer(client.close)
using inspector = await openInspector(broker)

const print = async (title: string, before: () => Promise<unknown>, walk: () => Promise<unknown>): Promise<void> => {
  let common: string[] | undefined
  for (let round = 0; round < ROUNDS; round++) {
    await before()
    const files = await inspector.filesEnteredBy(walk)
    common = common?.filter((file) => files.includes(file)) ?? files
  }
  const perRoot = Map.groupBy(common ?? [], (file) => file.split('/').slice(0, 2).join('/'))
  console.log(`${title}: ${[...perRoot].map(([root, files]) => `${root} ${files.length}`).join(', ')}`)
  for (const file of common ?? []) console.log(`  ${file}`)
}

const relayed = await client.ensure('walk', undefined, 'always')
let socket = await openSocket(relayed)
const close = async (): Promise<void> => {
  const closed = once(socket, 'close')
  socket.close()
  await closed
}
await client.ensure('walk')
await print(
  'ensure of a live session',
  async () => {},
  () => client.ensure('walk'),
)
await print('a relayed WebSocket, opened', close, async () => {
  socket = await openSocket(relayed)
})
await close()
