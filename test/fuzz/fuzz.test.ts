import { expect, test } from 'vitest'
import { runTarget } from './run.ts'
import { TARGETS } from './targets.ts'

/** So many inputs a target, or as many as a busy machine makes in the time; `npm run fuzz` goes on from there. */
const EXECUTIONS = 5000
const WITHIN_MS = 20_000
const SEED = 10

test.each(Object.keys(TARGETS))('[4-53] no input of 5,000 breaks a property of %s', { timeout: 600_000 }, async (name) => {
  const target = TARGETS[name]
  if (target === undefined) throw new Error(name)
  const { executions, accepted, failure } = await runTarget(target, { seed: SEED, executions: EXECUTIONS, milliseconds: WITHIN_MS })
  if (failure !== undefined) throw new Error(`input ${failure.input.toString('hex')}`, { cause: failure.cause })
  // Both kinds of input were there.
  expect(accepted).toBeGreaterThan(0)
  expect(accepted).toBeLessThan(executions)
})
