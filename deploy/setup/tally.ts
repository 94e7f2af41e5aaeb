// Adds up what vitest and cargo counted. A run that ended badly without counting a failure is itself one: a crash must not look green.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

type Count = { passed: number; failed: number; skipped: number }
type Report = {
  numPassedTests: number
  numFailedTests: number
  numPendingTests: number
  numTodoTests: number
  testResults: { status: string; assertionResults: { status: string }[] }[]
}

const [directory = '.', ...flags] = process.argv.slice(2)
const read = (name: string) => (existsSync(join(directory, name)) ? readFileSync(join(directory, name), 'utf8') : undefined)

const lanes = readdirSync(directory).flatMap((name) => (name.endsWith('.vitest.status') ? [name.slice(0, -'.status'.length)] : []))
const counts = lanes.map((lane) => honest(countVitest(read(`${lane}.json`)), read(`${lane}.status`)))
const cargoStatus = read('cargo.status')
if (cargoStatus !== undefined) counts.push(honest(countCargo(read('cargo.log') ?? ''), cargoStatus))
if (!['0', undefined].includes(read('requirements.status')?.trim())) counts.push({ passed: 0, failed: 1, skipped: 0 })
if (flags.includes('--without-engine')) {
  console.log('The docker tests did not run: no engine, or no sandbox image. That counts as one failure.')
  counts.push({ passed: 0, failed: 1, skipped: 0 })
}

const sum = (key: keyof Count) => counts.reduce((total, count) => total + count[key], 0)
const [passed, failed, skipped] = [sum('passed'), sum('failed'), sum('skipped')]
console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`)
process.exitCode = failed > 0 || passed === 0 ? 1 : 0

function countVitest(json: string | undefined): Count {
  if (json === undefined) return { passed: 0, failed: 0, skipped: 0 }
  const report: Report = JSON.parse(json)
  const brokenFiles = report.testResults.filter(
    ({ status, assertionResults }) => status === 'failed' && !assertionResults.some((test) => test.status === 'failed'),
  )
  return {
    passed: report.numPassedTests,
    failed: report.numFailedTests + brokenFiles.length,
    skipped: report.numPendingTests + report.numTodoTests,
  }
}

function countCargo(log: string): Count {
  const lines = [...log.matchAll(/^test result: .* (\d+) passed; (\d+) failed; (\d+) ignored/gm)]
  const column = (index: number) => lines.reduce((total, line) => total + Number(line[index]), 0)
  return { passed: column(1), failed: column(2), skipped: column(3) }
}

function honest(count: Count, status: string | undefined): Count {
  return status?.trim() === '0' || count.failed > 0 ? count : { ...count, failed: 1 }
}
