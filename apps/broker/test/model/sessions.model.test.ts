import { expect, test } from 'vitest'
import { interleave } from './run.ts'

/** More for a long night: `BOXOFFICE_MODEL_RUNS=20000`. */
const RUNS = Number(process.env.BOXOFFICE_MODEL_RUNS ?? 700)

test('one thing after the other, on two brokers: every answer and every row is what the lifecycle says', async () => {
  const { done, conditions } = await interleave(RUNS, {
    negotiate: 4,
    'by id': 4,
    pass: 3,
    reap: 2,
    report: 1,
    use: 1,
    crash: 1,
    'restart agent': 1,
    hold: 1,
    'let go': 1,
  })
  // A generator that reaches too little proves too little.
  const all = ['provisioning', 'active', 'idle', 'freeze', 'stop', 'released', 'hard_ttl', 'lease', 'provision_timeout']
  expect([...conditions]).toEqual(expect.arrayContaining([...all, 'sandbox_missing', 'container died']))
  for (const [kind, times] of done) expect(times, kind).toBeGreaterThan(RUNS / 20)
}, 300_000)
