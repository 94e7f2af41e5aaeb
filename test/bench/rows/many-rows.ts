import { DatabaseSync } from 'node:sqlite'
import { brokerClient } from '../http.ts'
import { startStack } from '../stack.ts'
import { inTurn, median, timeEach } from '../statistics.ts'
import { type Needs, type Row, type RowContext, round } from './row.ts'

const BATCH = 20_000
/** One row in ten is of a live session, the rest have ended. */
const LIVE_EVERY = 10

/** Copies of one session under other ids and scopes; small batches, so that the broker's own writes get in between. */
const addSessions = async (path: string, sessionId: string, count: number): Promise<void> => {
  const database = new DatabaseSync(path, { timeout: 10_000 })
  const later = Date.now() + 24 * 3600 * 1000
  const replaced: Record<string, string> = {
    id: "'ssn_bench_' || n",
    scope_id: "'bench-row-' || n",
    sandbox_id: "'sb_bench_' || n",
    // An agent that is not there: nobody asks what it has.
    agent_id: "'agt_bench'",
    state: `CASE n % ${LIVE_EVERY} WHEN 0 THEN 'active' ELSE 'terminated' END`,
    reason: `CASE n % ${LIVE_EVERY} WHEN 0 THEN NULL ELSE 'released' END`,
    ended_at: `CASE n % ${LIVE_EVERY} WHEN 0 THEN NULL ELSE ${Date.now()} END`,
    due_at: String(later),
  }
  const columns = (database.prepare('PRAGMA table_info(sessions)').all() as { name: string }[]).map(({ name }) => name)
  const insert = database.prepare(`
    WITH RECURSIVE numbers (n) AS (SELECT ? UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < ?)
    INSERT INTO sessions (${columns.join(', ')})
    SELECT ${columns.map((column) => replaced[column] ?? column).join(', ')} FROM numbers, sessions WHERE sessions.id = ?`)
  for (let from = 0; from < count; from += BATCH) {
    insert.run(from, Math.min(count, from + BATCH), sessionId)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  database.close()
}

export const needs: Needs = {}

/** `ensure` of a live session at a broker with a million session rows, against one with a thousand, in turn. */
export const run = async ({ scratch }: RowContext): Promise<Row[]> => {
  await using stacks = new AsyncDisposableStack()
  const start = async (name: string) => {
    const { address, stop } = await startStack({ name, provider: 'local', scratch, profiles: [] })
    stacks.defer(stop)
    return brokerClient(address.brokerUrl, address.apiKey)
  }
  const [few, many] = [await start('few'), await start('many')]
  const [inFew, inMany] = [await few.ensure('bench-rows'), await many.ensure('bench-rows')]
  await addSessions(`${scratch}/few/broker/broker.db`, inFew.session_id, 1000)
  await addSessions(`${scratch}/many/broker/broker.db`, inMany.session_id, 1_000_000)
  const measure = (broker: typeof few) => async () => median(await timeEach(1000, () => broker.ensure('bench-rows')))
  await measure(few)()
  await measure(many)()
  const result = await inTurn(measure(many), measure(few))
  await few.release(inFew.session_id)
  await many.release(inMany.session_id)
  return [
    {
      row: 'ensure of a live session with 1,000,000 session rows, p50',
      measured: `${round(result.ours)} ms = ${round(result.ratio)} ×`,
      comparison: `with 1,000 rows ${round(result.theirs)} ms`,
      must: '≤ 1.3 ×',
      stretch: '',
      passed: result.ratio <= 1.3,
      figures: { ...result },
    },
  ]
}
