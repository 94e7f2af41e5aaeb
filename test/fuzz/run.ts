import { setImmediate } from 'node:timers/promises'
import { withTimeout } from '@boxoffice/kit/with-timeout'
import { Random } from './random.ts'
import type { FuzzTarget } from './target.ts'

export type FuzzResult = {
  executions: number
  /** How many inputs were accepted: with none of them, or all, a target tests little. */
  accepted: number
  failure: { input: Buffer; cause: unknown } | undefined
}

/** One input may take so long; it is a failure that it does not end otherwise. */
const INPUT_WITHIN_MS = 60_000

/** Runs until the first failure, `executions` inputs or `milliseconds`. */
export async function runTarget(
  target: FuzzTarget,
  { seed, executions, milliseconds }: { seed: number; executions: number; milliseconds: number },
): Promise<FuzzResult> {
  const random = new Random(seed)
  const until = performance.now() + milliseconds
  const result: FuzzResult = { executions: 0, accepted: 0, failure: undefined }
  while (result.executions < executions && performance.now() < until) {
    const input = target.generate(random)
    result.executions++
    try {
      const outcome = target.check(input)
      if (typeof outcome === 'boolean' ? outcome : await inTime(outcome)) result.accepted++
    } catch (cause) {
      return { ...result, failure: { input, cause } }
    }
    // Timers and the collector have their turn too.
    if (result.executions % 1000 === 0) await setImmediate()
  }
  return result
}

function inTime(outcome: Promise<boolean>): Promise<boolean> {
  return withTimeout(outcome, INPUT_WITHIN_MS, () => {
    throw new Error(`no outcome within ${INPUT_WITHIN_MS / 1000} s`)
  })
}
