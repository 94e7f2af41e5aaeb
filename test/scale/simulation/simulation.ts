import { type ChildProcess, fork } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { startPostgres } from '../../../apps/broker/test/support/postgres.ts'
import { brokerClient } from '../../bench/http.ts'
import { many } from '../../bench/many.ts'
import { cpuMs, residentKiB } from '../../bench/process-memory.ts'
import { median, timeEach } from '../../bench/statistics.ts'
import { type Program, startProgram } from '../../e2e/support/program.ts'
import { reservePort } from '../../e2e/support/reserve-port.ts'
import { API_KEY, ENROLL_TOKEN } from '../../e2e/support/stack.ts'
import { type Part, print } from '../part.ts'

const WRITERS = 32
const SAMPLES = 1000
/** Neither idle, suspended nor ended while this runs: what is measured is no burst of what the making of sessions leaves to do a minute later. */
const LASTING = {
  ...{
    name: 'lasting',
    idle_after_seconds: 86_400,
    idle_timeout_seconds: 86_400,
    stop_after_seconds: 86_400,
    lease_seconds: 86_400,
    hard_ttl_seconds: 86_400,
  },
}

type Measured = { sessions: number; ensureMs: number; newMs: number; memoryMiB: number; heartbeats: number; perSecond: number }

/**
 * A real broker on a real PostgreSQL with many simulated agents: what few sessions cost, and what many do. False where many cost more than
 * they may.
 * Options: `--agents 1000 --sessions 100000 --few 1000 --seconds 60 --used 100 --heap 320`.
 */
export const run: Part = async (options) => {
  const agents = Number(options.agents ?? 1000)
  const sessions = Number(options.sessions ?? 100_000)
  const few = Number(options.few ?? 1000)
  const seconds = Number(options.seconds ?? 60)
  const used = Number(options.used ?? 100)
  await using parts = new AsyncDisposableStack()
  const postgres = parts.use(await startPostgres())
  const directory = await mkdtemp(join(tmpdir(), 'bxo-'))
  parts.defer(() => rm(directory, { recursive: true, force: true }))
  const broker = await startBroker(directory, await postgres.database(), Number(options.heap ?? 320))
  parts.defer(async () => void (await broker.stop()))
  const url = broker.ready.broker_url
  const crowd = parts.use(await startAgents({ url, agents, room: Math.ceil((sessions / agents) * 2), used }))
  const client = brokerClient(url, API_KEY)
  parts.defer(() => client.close())
  const measured: Measured[] = []
  let made = 0
  for (const size of [few, sessions]) {
    const [first, begun] = [made, performance.now()]
    await many(size - first, WRITERS, (i) => client.ensure(`simulated-${first + i}`, LASTING.name))
    made = size
    print({ sessions: made, made_per_second: Math.round(((made - first) / (performance.now() - begun)) * 1000) })
    measured.push(await measure({ client, broker, crowd, sessions: made, seconds }))
    print({ ...measured.at(-1) })
  }
  const [before, after] = measured
  if (before === undefined || after === undefined) throw new Error('nothing was measured')
  const ratio = after.ensureMs / before.ensureMs
  const rows = [
    {
      row: `ensure of a live session, p50, ${sessions} sessions`,
      measured: `${ratio.toFixed(2)} ×`,
      must: '≤ 1.5 ×',
      passed: ratio <= 1.5,
    },
    { row: 'memory of the broker', measured: `${after.memoryMiB.toFixed(0)} MiB`, must: '≤ 512 MiB', passed: after.memoryMiB <= 512 },
    {
      row: `heartbeats of ${agents} agents, of a core`,
      measured: `${(after.heartbeats * 100).toFixed(1)} %`,
      must: '≤ 20 %',
      passed: after.heartbeats <= 0.2,
    },
  ]
  for (const row of rows) print(row)
  return rows.every(({ passed }) => passed)
}

/** `heapMiB`: what its old generation may have. Without a bound Node collects it when the machine's memory makes it, not when it could. */
const startBroker = async (directory: string, databaseUrl: string, heapMiB: number): Promise<Program> => {
  const unlimited = { per_second: 100_000, burst: 100_000 }
  const config = join(directory, 'config.json')
  const keyFile = join(directory, 'secret.key')
  const port = await reservePort()
  await writeFile(keyFile, randomBytes(32).toString('base64url'), { mode: 0o600 })
  await writeFile(
    config,
    JSON.stringify({
      rate_limits: { create_per_principal: unlimited, create_per_tenant: unlimited },
      ...{ max_sessions: 1_000_000, profiles: [LASTING] },
    }),
  )
  const args = [
    ...['broker', '--port', String(port), '--data-dir', directory, '--enroll-token', ENROLL_TOKEN, '--api-key', API_KEY],
    ...['--public-url', `http://127.0.0.1:${port}`, '--config', config, '--database-url', databaseUrl, '--secret-key-file', keyFile],
  ]
  return startProgram(args, { NODE_OPTIONS: `--max-old-space-size=${heapMiB}` })
}

type Crowd = AsyncDisposable & { reports(): number }
type Told = { type: 'registered' } | { type: 'reports'; reports: number; sandboxes: number }

const startAgents = async (of: { url: string; agents: number; room: number; used: number }): Promise<Crowd> => {
  const begun = performance.now()
  const args = [of.url, ENROLL_TOKEN, of.agents, of.room, of.used].map(String)
  const child: ChildProcess = fork(join(import.meta.dirname, 'agents.ts'), args, { execArgv: process.execArgv })
  let reports = 0
  child.on('message', (told: Told) => {
    if (told.type === 'reports') reports = told.reports
  })
  const ended = once(child, 'exit').then(() => Promise.reject(new Error('the agents ended')))
  await Promise.race([once(child, 'message'), ended])
  ended.catch(() => {})
  print({ agents: of.agents, registered_in_s: Math.round((performance.now() - begun) / 100) / 10 })
  return {
    reports: () => reports,
    async [Symbol.asyncDispose]() {
      child.kill()
      await ended.catch(() => {})
    },
  }
}

const measure = async (at: {
  client: ReturnType<typeof brokerClient>
  broker: Program
  crowd: Crowd
  sessions: number
  seconds: number
}): Promise<Measured> => {
  const { client, broker, crowd, sessions, seconds } = at
  const { pid } = broker.ready
  // What the making of sessions has left to do is done, and every agent has told of its sandboxes.
  await delay(10_000)
  const anyOf = () => client.ensure(`simulated-${Math.floor(Math.random() * sessions)}`, LASTING.name)
  await timeEach(SAMPLES, anyOf)
  const ensureMs = median(await timeEach(SAMPLES, anyOf))
  const newMs = median(await timeEach(100, (i) => client.ensure(`new-${sessions}-${i}`, LASTING.name)))
  await delay(5000)
  const [spent, told, begun] = [cpuMs(pid), crowd.reports(), performance.now()]
  await delay(seconds * 1000)
  const took = performance.now() - begun
  return {
    sessions,
    ensureMs,
    newMs,
    memoryMiB: residentKiB(pid) / 1024,
    heartbeats: (cpuMs(pid) - spent) / took,
    perSecond: ((crowd.reports() - told) / took) * 1000,
  }
}
