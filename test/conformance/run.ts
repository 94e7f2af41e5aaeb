import type { Case } from './case.ts'
import type { Target } from './target.ts'

export type Outcome = { numbers: readonly string[]; name: string; failure: string | null; ms: number }

/** Runs every case, `width` at a time; a case that throws has failed, none is left out. */
export async function runCases(cases: readonly Case[], target: Target, width = 4): Promise<Outcome[]> {
  const outcomes: Outcome[] = []
  const queue = cases.map((one, index) => ({ one, index }))
  const worker = async (): Promise<void> => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      const started = performance.now()
      const failure = await next.one.run(target).then(
        () => null,
        (thrown: unknown) => (thrown instanceof Error ? thrown.message : String(thrown)),
      )
      const { numbers, name } = next.one
      outcomes[next.index] = { numbers, name, failure, ms: Math.round(performance.now() - started) }
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
    ({ numbers, name, failure, ms }) =>
      `${failure === null ? 'passed' : 'FAILED'}  [${numbers.join(', ')}] ${name} (${ms} ms)${failure === null ? '' : `\n        ${failure.replaceAll('\n', '\n        ')}`}`,
  )
  const byNumber = new Map<string, boolean>()
  for (const { numbers, failure } of outcomes)
    for (const number of numbers) byNumber.set(number, (byNumber.get(number) ?? true) && failure === null)
  const numbers = [...byNumber].toSorted(([a], [b]) => a.localeCompare(b, 'en', { numeric: true }))
  const failed = outcomes.filter(({ failure }) => failure !== null).length
  return [
    ...lines,
    '',
    `passed by number: ${numbers.flatMap(([number, passed]) => (passed ? [number] : [])).join(' ')}`,
    `failed by number: ${numbers.flatMap(([number, passed]) => (passed ? [] : [number])).join(' ') || 'none'}`,
    `${outcomes.length - failed} passed, ${failed} failed`,
  ].join('\n')
}
