import { connect } from '../../../apps/broker/src/store/postgres/engine/connection.ts'
import type { Postgres } from '../../../apps/broker/test/support/postgres.ts'
import { API_KEY, type Stack, startStack } from '../../e2e/support/stack.ts'
import { brokerClient } from '../http.ts'
import { cpuMs } from '../process-memory.ts'
import { inTurn, median, timeEach } from '../statistics.ts'
import { type Needs, type Row, round } from './row.ts'

export const needs: Needs = {}

const PER_BLOCK = 1000
/** Of each broker: where a broker has less to do at once, it sleeps and wakes more often for the same work. */
const CLIENTS = 8
const LOAD_MS = 3000
/** Of each broker before it is measured: V8 goes on compiling its code over thousands of requests. */
const WARM_UP = 5000

/**
 * `ensure` of live sessions on PostgreSQL against SQLite, in turn, and what it costs each of two brokers. Neither database syncs a
 * commit to the disk: SQLite does not in WAL mode, and the server of the tests has `fsync` off.
 */
export async function* run(): AsyncIterable<Row> {
  await using stack = await startStack({ provider: 'local', database: 'postgres', brokers: 2 })
  yield await latency(stack)
  yield* await load(stack)
}

async function latency(postgres: Stack): Promise<Row> {
  await using sqlite = await startStack({ provider: 'local', database: 'sqlite', brokers: 1 })
  const ours = await p50Of(postgres.brokerUrls[0] ?? '')
  const theirs = await p50Of(sqlite.brokerUrl)
  const { ours: onPostgres, theirs: onSqlite, ratio } = await inTurn(ours, theirs)
  return {
    row: 'ensure of a live session on PostgreSQL, p50',
    measured: `${round(onPostgres)} ms = ${round(ratio)} ×`,
    comparison: `on SQLite ${round(onSqlite)} ms`,
    must: '≤ 2 ×',
    stretch: '',
    passed: ratio <= 2,
    figures: { postgres: onPostgres, sqlite: onSqlite, ratio },
  }
}

/** Gives what measures the p50 of a block, at a broker that is warm. */
async function p50Of(brokerUrl: string): Promise<() => Promise<number>> {
  const broker = brokerClient(brokerUrl, API_KEY)
  const block = (count: number) => timeEach(count, () => broker.ensure('bench-live'))
  await block(WARM_UP)
  return async () => median(await block(PER_BLOCK))
}

/** A broker under load. */
type Loaded = { client: ReturnType<typeof brokerClient>; pid: number }

/** The processor time of the brokers for each `ensure` of many clients with sessions of their own, and how often one waits for a lock. */
async function load(stack: Stack): Promise<Row[]> {
  const { postgres } = stack
  if (postgres === undefined) throw new Error('the stack has no PostgreSQL')
  const both = loaded(stack)
  await warmUp(both)
  const rates: number[] = []
  let turns = 0
  const {
    ours: two,
    theirs: one,
    ratio,
  } = await inTurn(
    async () => {
      const { perEnsure, perSecond } = await costOf(both)
      rates.push(perSecond)
      return perEnsure
    },
    // Both brokers take turns at being measured alone: one that always is would be warmer than the other.
    async () => {
      const alone = both.filter((_, i) => i === turns % both.length)
      turns++
      return (await costOf(alone)).perEnsure
    },
  )
  const waits = await lockWaits(postgres, () => costOf(both))
  return [
    {
      row: 'processor time of two brokers for each ensure, PostgreSQL',
      measured: `${round(two)} ms = ${round(ratio)} ×`,
      comparison: `of one broker with half the clients ${round(one)} ms; ${round(median(rates), 0)} ensures/s by two`,
      must: '≤ 1.15 ×',
      stretch: '',
      passed: ratio <= 1.15,
      figures: { two, one, ratio, rate: median(rates) },
    },
    {
      row: 'connections of two brokers that wait for a lock',
      measured: `${round(waits.share * 100)} % of ${waits.samples} samples`,
      comparison: '',
      must: '≤ 1 %',
      stretch: '',
      passed: waits.share <= 0.01,
      figures: { share: waits.share, samples: waits.samples },
    },
  ]
}

const loaded = ({ brokerUrls, broker }: Stack): Loaded[] =>
  brokerUrls.map((url, i) => ({ client: brokerClient(url, API_KEY), pid: broker(i).ready.pid }))

/** Makes the sessions, too. */
async function warmUp(brokers: readonly Loaded[]): Promise<void> {
  await Promise.all(
    everyClient(brokers).map(async ({ client }, i) => {
      for (let n = 0; n < WARM_UP / CLIENTS; n++) await client.ensure(`bench-load-${i}`)
    }),
  )
}

/** Each client keeps to a broker and to a session of its own. */
const everyClient = (brokers: readonly Loaded[]): Loaded[] => Array.from({ length: CLIENTS }, () => brokers).flat()

/** Of these brokers together: `perEnsure` in ms of processor time. */
async function costOf(brokers: readonly Loaded[]): Promise<{ perEnsure: number; perSecond: number }> {
  const spent = () => brokers.reduce((sum, { pid }) => sum + cpuMs(pid), 0)
  const [before, start] = [spent(), performance.now()]
  let done = 0
  await Promise.all(
    everyClient(brokers).map(async ({ client }, i) => {
      for (; performance.now() - start < LOAD_MS; done++) await client.ensure(`bench-load-${i}`)
    }),
  )
  return { perEnsure: (spent() - before) / done, perSecond: (done / (performance.now() - start)) * 1000 }
}

/** Of the connections that do something, the share that waits for a lock, looked at again and again while `work` runs. */
async function lockWaits(postgres: Postgres, work: () => Promise<unknown>): Promise<{ share: number; samples: number }> {
  const client = await connect(postgres.url)
  let isRunning = true
  const running = work().finally(() => {
    isRunning = false
  })
  let [waiting, samples] = [0, 0]
  while (isRunning) {
    const { rows } = await client.query<{ locked: boolean }>(ACTIVE)
    for (const { locked } of rows) {
      samples++
      if (locked) waiting++
    }
  }
  await running
  await client.end()
  if (samples === 0) throw new Error('no connection was seen at work')
  return { share: waiting / samples, samples }
}

const ACTIVE = `SELECT coalesce(wait_event_type = 'Lock', false) AS locked FROM pg_stat_activity
  WHERE application_name = 'boxoffice' AND state <> 'idle' AND pid <> pg_backend_pid()`
