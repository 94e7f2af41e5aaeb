import { readFileSync } from 'node:fs'
import { connect } from '../../../apps/broker/src/store/postgres/engine/connection.ts'
import type { Postgres } from '../../../apps/broker/test/support/postgres.ts'
import { API_KEY, type Stack, startStack } from '../../e2e/support/stack.ts'
import { brokerClient } from '../http.ts'
import { inTurn, median, timeEach } from '../statistics.ts'
import { type Needs, type Row, round } from './row.ts'

export const needs: Needs = {}

/** Of `/proc/PID/stat`, per second. */
const TICKS = 100
const PER_BLOCK = 1000
/** Of each broker: where a broker has less to do at once, it sleeps and wakes more often for the same work. */
const CLIENTS = 8
const LOAD_MS = 3000

/**
 * `ensure` of live sessions on PostgreSQL against SQLite, in turn, and what it costs each of two brokers. Neither database syncs a
 * commit to the disk: SQLite does not in WAL mode, and the server of the tests has `fsync` off.
 */
export async function* run(): AsyncIterable<Row> {
  await using sqlite = await startStack({ provider: 'local', database: 'sqlite', brokers: 1 })
  await using stack = await startStack({ provider: 'local', database: 'postgres', brokers: 2 })
  yield await latency(sqlite, stack)
  yield* await load(stack)
}

async function latency(sqlite: Stack, postgres: Stack): Promise<Row> {
  const [ours, theirs] = await Promise.all([postgres, sqlite].map((stack) => p50Of(stack.brokerUrls[0] ?? '')))
  if (ours === undefined || theirs === undefined) throw new Error('a broker is missing')
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
  const block = () => timeEach(PER_BLOCK, () => broker.ensure('bench-live'))
  await block()
  return async () => median(await block())
}

/** The processor time of the brokers for each `ensure` of many clients with sessions of their own, and how often one waits for a lock. */
async function load({ brokerUrls, broker, postgres }: Stack): Promise<Row[]> {
  if (postgres === undefined) throw new Error('the stack has no PostgreSQL')
  const clients = brokerUrls.map((url) => brokerClient(url, API_KEY))
  const costOf = async (used: typeof clients): Promise<{ perEnsure: number; perSecond: number }> => {
    const before = processorMs(broker(0).ready.pid) + processorMs(broker(1).ready.pid)
    const start = performance.now()
    let done = 0
    await Promise.all(
      Array.from({ length: CLIENTS * used.length }, async (_, i) => {
        const client = used[i % used.length]
        for (; client !== undefined && performance.now() - start < LOAD_MS; done++) await client.ensure(`bench-load-${i}`)
      }),
    )
    const spent = processorMs(broker(0).ready.pid) + processorMs(broker(1).ready.pid) - before
    return { perEnsure: spent / done, perSecond: (done / (performance.now() - start)) * 1000 }
  }
  // The sessions are made, and both brokers are warm.
  await costOf(clients.slice(0, 1))
  await costOf(clients)
  const rates: number[] = []
  const {
    ours: two,
    theirs: one,
    ratio,
  } = await inTurn(
    async () => {
      const { perEnsure, perSecond } = await costOf(clients)
      rates.push(perSecond)
      return perEnsure
    },
    async () => (await costOf(clients.slice(0, 1))).perEnsure,
  )
  const waits = await lockWaits(postgres, () => costOf(clients))
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

function processorMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return ((Number(fields[11]) + Number(fields[12])) / TICKS) * 1000
}
