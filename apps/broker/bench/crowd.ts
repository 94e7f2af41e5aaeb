/**
 * What the store and the intake of reports cost with many live sessions of one tenant, in processor time of this process.
 * Usage: node apps/broker/bench/crowd.ts [live sessions …]. Prints one JSON line for each number of live sessions, in µs per call.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openSqliteStore } from '../src/store/sqlite/sqlite-store.ts'
import { AGENT, costOf, openCrowd, TENANT } from '../test/support/crowd.ts'

async function measure(live: number): Promise<Record<string, number>> {
  const directory = mkdtempSync(join(tmpdir(), 'boxoffice-crowd-'))
  try {
    await using store = await openSqliteStore(join(directory, 'broker.db'))
    const crowd = openCrowd(store)
    await crowd.grow(live)
    const figures = {
      creation: await costOf(() => crowd.add()),
      labeled_creation: await costOf(() => crowd.add({ key: 'box', value: 'true' })),
      live_by_agent: await costOf(() => store.counts.liveByAgent([AGENT.id])),
      partial_report: await costOf(() => crowd.inventory.reconcile(AGENT, crowd.reports.slice(0, 2), false)),
      complete_report: await costOf(() => crowd.inventory.reconcile(AGENT, crowd.reports, true), { calls: 1 }),
      revocations: await costOf(async () => [
        await store.agentSessions.endedOn(AGENT.id, Date.now() - 15_000),
        await store.grants.narrowedOn(AGENT.id, Math.floor(Date.now() / 1000) - 15),
      ]),
      reaper_round: await costOf(async () => [await store.sessions.due(Date.now(), 200), await store.sessions.provisioning()]),
      usage: await costOf(() => Promise.all([store.counts.liveOf(TENANT, null), store.counts.busyOf(TENANT)])),
      metrics: await costOf(() => store.counts.liveByState()),
    }
    return { live, ...Object.fromEntries(Object.entries(figures).map(([name, cost]) => [name, Math.round(cost)])) }
  } finally {
    rmSync(directory, { recursive: true })
  }
}

await measure(200) // compiles what is measured
const sizes = process.argv.slice(2).map(Number)
for (const live of sizes.length > 0 ? sizes : [1000, 5000, 10_000]) process.stdout.write(`${JSON.stringify(await measure(live))}\n`)
