// Writes docs/requirements/tests.md from what vitest reported of a whole run: which tests cite which requirement. Ends with status 1, and
// writes nothing, if a line that the specification states or implies has no test, or one that did not pass. `npm test` runs it.
import { readFileSync, writeFileSync } from 'node:fs'
import { relative } from 'node:path'
import { ROOT } from '../e2e/support/program.ts'
import { mustBeShown, PAGES, readRequirements, TESTS_PAGE } from './pages.ts'
import { type FileReport, type Shown, showing, testsPage } from './tests-page.ts'

const reports = process.argv.slice(2)
if (reports.length === 0) throw new Error('usage: write-tests.ts <report of vitest, JSON>...')
const files = reports
  .flatMap((file) => (JSON.parse(readFileSync(file, 'utf8')) as { testResults: FileReport[] }).testResults)
  .map((file) => ({ ...file, name: relative(ROOT, file.name) }))

const requirements = [...readRequirements().values()]
const shown = showing(files)
const isOpen = (by: Shown | undefined): boolean => by === undefined || by.passed < by.runs

const open = requirements.filter((requirement) => mustBeShown(requirement) && isOpen(shown.get(requirement.id)))
if (open.length > 0) {
  console.log(`requirements: not shown by a test that passed: ${open.map(({ id }) => id).join(', ')}`)
  process.exitCode = 1
} else {
  writeFileSync(`${PAGES}${TESTS_PAGE}`, testsPage(requirements, shown))
}
