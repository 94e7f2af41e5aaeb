import type { Case } from './case.ts'
import { MissingProfile, type Target } from './target.ts'

export type Outcome = { numbers: readonly string[]; name: string; failure: string | null; skipped: string | null; ms: number }

/** Runs every case, `width` at a time; a case that throws has failed, one that needs a profile which is not there is skipped with that reason. */
export async function runCases(cases: readonly Case[], target: Target, width = 4): Promise<Outcome[]> {
  const outcomes: Outcome[] = []
  const queue = cases.map((one, index) => ({ one, index }))
  const worker = async (): Promise<void> => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      const started = performance.now()
      let [failure, skipped]: (string | null)[] = [null, null]
      try {
        await next.one.run(target)
      } catch (thrown) {
        const message = thrown instanceof Error ? thrown.message : String(thrown)
        if (thrown instanceof MissingProfile) skipped = message
        else failure = message
      }
      const { numbers, name } = next.one
      outcomes[next.index] = {
        numbers,
        name,
        failure: failure ?? null,
        skipped: skipped ?? null,
        ms: Math.round(performance.now() - started),
      }
    }
  }
  try {
    await Promise.all(Array.from({ length: width }, worker))
  } finally {
    await target.close()
  }
  return outcomes
}

/** One line a case, then the table by number: a number has passed when all of its cases have. */
export function report(outcomes: readonly Outcome[]): string {
  const lines = outcomes.map(
    ({ numbers, name, failure, skipped, ms }) =>
      `${verdict({ failure, skipped })}  [${numbers.join(', ')}] ${name} (${ms} ms)${indented(failure ?? skipped)}`,
  )
  const byNumber = new Map<string, boolean>()
  for (const { numbers, failure, skipped } of outcomes)
    if (skipped === null) for (const number of numbers) byNumber.set(number, (byNumber.get(number) ?? true) && failure === null)
  const numbers = [...byNumber].toSorted(([a], [b]) => a.localeCompare(b, 'en', { numeric: true }))
  const failed = outcomes.filter(({ failure }) => failure !== null).length
  const left = outcomes.filter(({ skipped }) => skipped !== null).length
  return [
    ...lines,
    '',
    `passed by number: ${numbers.flatMap(([number, passed]) => (passed ? [number] : [])).join(' ')}`,
    `failed by number: ${numbers.flatMap(([number, passed]) => (passed ? [] : [number])).join(' ') || 'none'}`,
    `${outcomes.length - failed - left} passed, ${failed} failed, ${left} skipped`,
  ].join('\n')
}

const verdict = ({ failure, skipped }: Pick<Outcome, 'failure' | 'skipped'>): string =>
  failure !== null ? 'FAILED' : skipped !== null ? 'skipped' : 'passed'

const indented = (text: string | null): string => (text === null ? '' : `\n        ${text.replaceAll('\n', '\n        ')}`)
