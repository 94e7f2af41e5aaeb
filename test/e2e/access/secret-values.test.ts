import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect } from '@boxoffice/client'
import { expect, onTestFinished, test } from 'vitest'
import { openIdentity } from '../../../apps/agent/src/broker-link/identity.ts'
import { createSessionSecrets } from '../../../apps/agent/src/egress/secrets/session-secrets.ts'
import { SimulatedAgent } from '../../../apps/agent/test/support/simulated-agent.ts'
import { openDatabase } from '../../../apps/broker/src/store/sqlite/engine/database.ts'
import { injecting } from '../../../apps/broker/test/support/injecting.ts'
import { lineLog } from '../../../apps/broker/test/support/line-log.ts'
import { startTestBroker } from '../../../apps/broker/test/support/test-broker.ts'
import { BOXOFFICE } from '../support/program.ts'
import { filesBelow } from '../support/traces.ts'

/** What values have and nothing else does, in the ways in which bytes are usually written down. */
const CANARY = 'canary-7f3a-of-a-secret'
const SPELLINGS = [
  CANARY,
  Buffer.from(CANARY).toString('hex'),
  ...['', 'x', 'xx'].map((before) =>
    Buffer.from(`${before}${CANARY}`)
      .toString('base64')
      .slice(before === '' ? 0 : 4, -4),
  ),
]
/** What a description has, so that a search that looks in the wrong place is noticed. */
const VISIBLE = 'visible-9c1e-beside-a-secret'
const has = (text: string): boolean => SPELLINGS.some((spelling) => text.includes(spelling))

/** Every file below as bytes: the database, its log of writes, keys. */
async function filesOf(directory: string): Promise<Map<string, string>> {
  const paths = await filesBelow(directory)
  return new Map(
    await Promise.all(paths.map(async (path) => [path, await readFile(join(directory, path), 'latin1').catch(() => '')] as const)),
  )
}

/** The command lines and environments of all processes. */
const processes = (): string =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => ['cmdline', 'environ'].map((file) => join('/proc', pid, file)))
    .map((path) => {
      try {
        return readFileSync(path, 'latin1')
      } catch {
        return ''
      }
    })
    .join('\n')

/** All that this process is answered over HTTP, the agent's answers included. */
function recordAnswers(): string[] {
  const answers: string[] = []
  const { fetch } = globalThis
  globalThis.fetch = async (input, init) => {
    const response = await fetch(input, init)
    const { pathname } = new URL(input instanceof Request ? input.url : input)
    // One that lasts is read by its own test.
    if (!response.headers.get('content-type')?.includes('event-stream')) answers.push(`${pathname} ${await response.clone().text()}`)
    return response
  }
  onTestFinished(() => {
    globalThis.fetch = fetch
  })
  return answers
}

async function startAgent(brokerUrl: string, enrollToken: string) {
  const server = createServer((request, response) => void agent.answer(request, response).catch(() => response.destroy()))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const directory = await mkdtemp(join(tmpdir(), 'bxo-canary-'))
  const identity = await openIdentity(directory)
  await rm(directory, { recursive: true })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const agent: SimulatedAgent = new SimulatedAgent({ brokerUrl, enrollToken, identity, url, room: 10 })
  onTestFinished(async () => {
    await agent.stop()
    server.closeAllConnections()
    server.close()
  })
  await agent.start()
  return agent
}

test('the value of a secret is in the answer to its session’s agent and nowhere else', async () => {
  const answers = recordAnswers()
  const { log, lines } = lineLog()
  const broker = await startTestBroker({ logLevel: 'trace', profiles: injecting('token', 'other') }, { log })
  let stopped = false
  onTestFinished(async () => {
    if (!stopped) await broker.stop()
  })
  const agent = await startAgent(broker.url, broker.enrollToken)
  const client = connect(broker.url, { apiKey: broker.key })
  const { session_id: sessionId } = await broker.ensure('t')
  const said: string[] = []
  const seen: string[] = []
  /** The command line as people use it, with the value on its standard input; watched while it runs. */
  const secretsCommand = async (args: string[], value: string): Promise<void> => {
    const env = { ...process.env, BOXOFFICE_URL: broker.url, BOXOFFICE_API_KEY: broker.key }
    const child: ChildProcess = spawn(BOXOFFICE, ['secrets', ...args], { env, stdio: 'pipe' })
    for (const stream of [child.stdout, child.stderr]) stream?.setEncoding('utf8').on('data', (text: string) => said.push(text))
    const closed = once(child, 'close')
    child.stdin?.end(value)
    seen.push(processes())
    await once(child.stdout as NodeJS.ReadableStream, 'data')
    seen.push(processes())
    expect((await closed)[0]).toBe(0)
  }
  const secrets = createSessionSecrets({ fetch: (names) => agent.secretsOf(sessionId, names), log })
  onTestFinished(() => secrets.close())

  await secretsCommand(['set', 'token', '--description', VISIBLE], `${CANARY}-first`)
  await secrets.want(['token'])
  expect(secrets.get('token')).toBe(`${CANARY}-first`)
  await secretsCommand(['set', 'token', '--json'], `${CANARY}-second`)
  await client.secrets.set('other', `${CANARY}-third`)
  await secrets.refresh()
  expect(secrets.get('token')).toBe(`${CANARY}-second`)
  const whileSet = await filesOf(broker.dataDir)

  // Whatever is refused or fails.
  for (const body of [{ value: `${CANARY}\0` }, { value: [CANARY] }, { value: CANARY.repeat(4000) }, { value: CANARY, description: 1 }])
    expect((await broker.send('PUT', '/v1/secrets/token', body)).status).toBe(400)
  const broken = { method: 'PUT', headers: { authorization: `Bearer ${broker.key}`, 'content-type': 'application/json' } }
  expect((await fetch(`${broker.url}/v1/secrets/token`, { ...broken, body: `{"value": "${CANARY}` })).status).toBe(400)
  expect((await broker.as('bxo_wrong').send('PUT', '/v1/secrets/token', { value: CANARY })).status).toBe(401)
  const db = await openDatabase(join(broker.dataDir, 'broker.db'))
  db.exec("UPDATE secrets SET version = 99 WHERE name = 'other'")
  db.close()
  await secrets.want(['token', 'other'])
  expect(secrets.get('other')).toBeUndefined()

  expect((await client.secrets.list()).map(({ name }) => name)).toEqual(['other', 'token'])
  const { body: entries } = await broker.get('/v1/audit?limit=1000')
  await client.secrets.remove('token')
  await secrets.refresh()
  expect(secrets.get('token')).toBeUndefined()
  await broker.release(sessionId)
  const events = await fetch(`${broker.url}/v1/sandbox/sessions/${sessionId}/events`, {
    headers: { authorization: `Bearer ${broker.key}` },
  })
  const told = await events.text()
  const afterwards = await filesOf(broker.dataDir)
  await broker.stop(true)
  stopped = true
  const atTheEnd = await filesOf(broker.dataDir)

  // The searches look where something is to be found.
  expect([...whileSet].some(([path, bytes]) => /broker\.db(-wal)?$/.test(path) && bytes.includes(VISIBLE))).toBe(true)
  expect([...whileSet.keys()]).toEqual(expect.arrayContaining(['broker.db', 'broker.db-wal', 'secret-keys']))
  expect(seen.some((text) => text.includes('secrets\0set\0token'))).toBe(true)
  expect(JSON.stringify(entries)).toContain('secret.set')
  expect(told).toContain('released')
  expect(lines.join()).toContain('a secret does not open')
  const handedOut = answers.filter(has)
  expect(handedOut.length).toBeGreaterThanOrEqual(2)

  expect(handedOut.filter((answer) => !/^\/v1\/agents\/agt_[\w-]+\/secrets /.test(answer))).toEqual([])
  for (const files of [whileSet, afterwards, atTheEnd])
    expect([...files].filter(([, bytes]) => has(bytes)).map(([path]) => path)).toEqual([])
  expect(seen.filter(has).length).toBe(0)
  expect([...lines, ...said, told, JSON.stringify(entries)].filter(has)).toEqual([])
})
