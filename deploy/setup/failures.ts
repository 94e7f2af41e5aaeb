// Reporter of vitest: writes what failed, in tests, hooks and outside of both, to the file that BOXOFFICE_FAILURES names. `npm test`
// shows it once more at its end, since the end of its output may be all that somebody has. Vitest's JSON report has no errors of hooks.
import { writeFileSync } from 'node:fs'
import { relative } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import type { Reporter, TestModule } from 'vitest/node'

/** Failures that are told, and lines of each. */
const MAX_FAILURES = 40
const MAX_LINES = 30

type Failure = { where: string; errors: readonly { message?: string; stack?: string; diff?: string }[] }

export default class Failures implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly Failure['errors'][number][]): void {
    const failures = modules.flatMap(failuresOf)
    if (unhandled.length > 0) failures.push({ where: 'handled by nobody', errors: unhandled })
    const text = failures.slice(0, MAX_FAILURES).map(toText).join('')
    const file = process.env.BOXOFFICE_FAILURES
    if (file !== undefined) writeFileSync(file, text)
  }
}

function failuresOf(module: TestModule): Failure[] {
  const name = relative(process.cwd(), module.moduleId)
  const suites = [...module.children.allSuites()].map((suite) => ({ where: `${name} > ${suite.fullName} (hooks)`, errors: suite.errors() }))
  const tests = [...module.children.allTests('failed')].map((test) => ({
    where: `${name} > ${test.fullName}`,
    errors: test.result().errors ?? [],
  }))
  return [{ where: name, errors: module.errors() }, ...suites, ...tests].filter(({ errors }) => errors.length > 0)
}

function toText({ where, errors }: Failure): string {
  const lines = errors.flatMap(({ message, stack, diff }) => stripVTControlCharacters([message, diff, stack].join('\n')).split('\n'))
  const own = lines.filter((line) => line.trim() !== '' && !line.includes('/node_modules/')).slice(0, MAX_LINES)
  return [`FAILED ${where}`, ...own.map((line) => `  ${line}`), ''].join('\n')
}
