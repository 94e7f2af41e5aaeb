import { expect, test } from 'vitest'
import { interleave } from './run.ts'

/** More for a long night: `BOXOFFICE_MODEL_RUNS=20000`. */
const RUNS = Number(process.env.BOXOFFICE_MODEL_RUNS ?? 300)

test('several clients and reapers at once, on two brokers: no second session, no lost sandbox, no ended session that comes back', async () => {
  const { done, conditions } = await interleave(RUNS, {
    together: 6,
    negotiate: 1,
    pass: 4,
    reap: 1,
    report: 1,
    use: 1,
    crash: 1,
    'restart agent': 1,
  })
  expect([...conditions]).toEqual(expect.arrayContaining(['active', 'freeze', 'stop', 'released', 'hard_ttl', 'lease']))
  for (const [kind, times] of done) expect(times, kind).toBeGreaterThan(RUNS / 20)
}, 300_000)
