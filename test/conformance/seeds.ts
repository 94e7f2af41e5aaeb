// Writes seeds.md from what vitest reported of a whole run: which test shows which requirement of the seeds 000 to 003. Ends with
// status 1 if a requirement has no test, or one that did not pass. `npm test` runs it; the table is committed.
import { readFileSync, writeFileSync } from 'node:fs'
import { basename } from 'node:path'
import { numbersIn } from '../requirements/citations.ts'
import { mustBeShown, readRequirements } from '../requirements/pages.ts'

type Report = {
  testResults: { name: string; assertionResults: { title: string; ancestorTitles: string[]; status: string }[] }[]
}
type Row = { tests: Set<string>; passed: number; runs: number }

const reports = process.argv.slice(2)
if (reports.length === 0) throw new Error('usage: seeds.ts <report of vitest, JSON>...')
const results = reports.flatMap((file) => (JSON.parse(readFileSync(file, 'utf8')) as Report).testResults)

const numbers = [...readRequirements().values()].filter(mustBeShown).map(({ id }) => id)
const rows = new Map<string, Row>(numbers.map((number) => [number, { tests: new Set(), passed: 0, runs: 0 }]))
for (const { name, assertionResults } of results) {
  for (const { title, ancestorTitles, status } of assertionResults) {
    const cited = [...ancestorTitles, title].flatMap((text) => [...text.matchAll(/\[([^\]]+)\]/g)].map(([, inner = '']) => inner))
    for (const number of new Set(cited.flatMap(numbersIn))) {
      const row = rows.get(number)
      if (row === undefined) continue
      row.tests.add(`${basename(name)}: ${cell(title)}`)
      row.runs++
      if (status === 'passed') row.passed++
    }
  }
}

writeFileSync(
  new URL('seeds.md', import.meta.url),
  [
    '# The seeds 000 to 003, number by number',
    '',
    'Written by `npm test`. `passed` counts runs: most tests run on several providers, directly and through the relay.',
    '',
    '| number | test | passed |',
    '| --- | --- | --- |',
    ...[...rows].map(([number, { tests, passed, runs }]) => `| ${number} | ${[...tests].toSorted().join('<br>')} | ${passed} of ${runs} |`),
    '',
  ].join('\n'),
)

const open = [...rows].filter(([, { passed, runs }]) => runs === 0 || passed < runs).map(([number]) => number)
if (open.length > 0) console.log(`seeds: not shown by a test that passed: ${open.join(', ')}`)
process.exitCode = open.length > 0 ? 1 : 0

/** A title as the cell of a table, without the numbers that it cites. */
function cell(title: string): string {
  return title
    .replace(/\[[^\]]*\]\s*/g, (whole) => (numbersIn(whole).length > 0 ? '' : whole))
    .replace(/[|\\<>`*_]/g, (character) => `&#${character.charCodeAt(0)};`)
    .replace(/\s+/g, ' ')
    .trim()
}
