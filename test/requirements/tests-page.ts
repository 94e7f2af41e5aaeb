import { citedIn, numbersIn, sectionsIn } from './citations.ts'
import type { Requirement } from './pages.ts'

/** What vitest's JSON says of a file of tests; `name` is its path in the repository. */
export type FileReport = { name: string; assertionResults: { title: string; ancestorTitles: string[]; tags?: string[]; status: string }[] }
/**
 * The tests that cite a requirement, by file, and how often they ran: on several providers, directly and through the relay. A test cites
 * by its tags and by brackets in its title; those of the groups around it count as its own.
 */
export type Shown = { titles: Map<string, Set<string>>; runs: number; passed: number }

/** More tests of one file than this are counted, not listed. */
const LISTED = 5

export const showing = (files: readonly FileReport[]): Map<string, Shown> => {
  const shown = new Map<string, Shown>()
  for (const { name, assertionResults } of files)
    for (const { title, ancestorTitles, tags = [], status } of assertionResults)
      for (const id of new Set([...tags, ...[...ancestorTitles, title].flatMap(citedIn)])) {
        const by = shown.get(id) ?? { titles: new Map<string, Set<string>>(), runs: 0, passed: 0 }
        shown.set(id, by)
        by.titles.set(name, (by.titles.get(name) ?? new Set()).add(textOf(title)))
        by.runs++
        if (status === 'passed') by.passed++
      }
  return shown
}

/** The page: nothing in it changes from run to run while the tests and their names stay. */
export const testsPage = (requirements: readonly Requirement[], shown: ReadonlyMap<string, Shown>): string =>
  [
    '# Tests of each requirement',
    '',
    'Written by `npm test` from a whole run, after it has passed. A number links to its line; a test is listed with each line that its tags or',
    'its title cite. Most of them run on several providers, directly and through the relay.',
    '',
    ...[...Map.groupBy(requirements, ({ page }) => page)].flatMap(([page, lines]) => [
      `## [${page.replace(/\.md$/, '')}](${page})`,
      '',
      ...lines.flatMap(({ id }) => {
        const tests = testsOf(shown.get(id)?.titles ?? new Map())
        const head = `- <a id="${id}"></a>[${id}](${page}#${id})`
        return tests.length === 0
          ? [`${head}: ${id.includes('-') ? 'no test cites it' : 'shown by its numbered lines'}`]
          : [head, ...tests.map((line) => `  - ${line}`)]
      }),
      '',
    ]),
  ].join('\n')

/** One entry for each file; files with the same tests, as of two providers, have one together. */
function testsOf(titles: ReadonlyMap<string, ReadonlySet<string>>): string[] {
  const byTests = Map.groupBy([...titles].toSorted(byName), ([, tests]) => listOf(tests))
  return [...byTests].map(([tests, files]) => `${files.map(([file]) => `\`${file}\``).join(', ')}: ${tests}`)
}

function listOf(tests: ReadonlySet<string>): string {
  const sorted = [...tests].toSorted()
  if (sorted.length <= LISTED) return sorted.join('; ')
  return `${sorted.slice(0, LISTED - 1).join('; ')}; ${sorted.length - LISTED + 1} more`
}

/** A title as text of a page, without the citations in it. */
function textOf(title: string): string {
  return title
    .replace(/\[[^\]]*\]\s*/g, (whole) => (numbersIn(whole).length + sectionsIn(whole).length > 0 ? '' : whole))
    .replace(/[\\`*_<>[\]|]/g, '\\$&')
    .replace(/\s+/g, ' ')
    .trim()
}

const byName = ([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number => (a < b ? -1 : 1)
