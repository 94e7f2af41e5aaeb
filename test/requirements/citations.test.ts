import { globSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { expect, test } from 'vitest'
import { ROOT } from '../e2e/support/program.ts'
import { citedIn, numbersIn, sectionsIn } from './citations.ts'
import { readRequirements, TESTS_PAGE } from './pages.ts'

const requirements = readRequirements()

const OTHERS: ReadonlySet<string> = new Set(['node_modules', 'target', 'dist', 'bin', 'prebuilt', 'results', 'vectors'])
const files = globSync(['{apps,packages,test,docs,deploy,skills}/**/*.{ts,js,mjs,rs,md,sql,sh}', '*.{md,ts}'], {
  cwd: ROOT,
  exclude: (path) => OTHERS.has(basename(path)),
}).filter((path) => !path.endsWith(`requirements/${TESTS_PAGE}`))

/** `line: citation` for each number or section without an anchor; of a range, the line where the text is first about it. */
const unresolvedIn = (text: string): string[] =>
  [...new Set([...numbersIn(text), ...sectionsIn(text)])]
    .filter((id) => !requirements.has(id))
    .map((id) => `${text.slice(0, Math.max(0, text.indexOf(id))).split('\n').length}: ${id}`)

test('every citation in code, tests and documents has a line in docs/requirements', () => {
  expect(files.length).toBeGreaterThan(500)
  const unresolved = files.flatMap((path) => unresolvedIn(readFileSync(`${ROOT}${path}`, 'utf8')).map((found) => `${path}:${found}`))
  expect(unresolved).toEqual([])
})

// Put together, so that the test above does not read them here.
const INVENTED = { number: `4-${990}`, decision: `C-${99}`, section: `2.${99}` }

test('an invented number is found wherever it stands', () => {
  const { number, decision, section } = INVENTED
  expect(unresolvedIn(`/** Waits [${number}]. */`)).toEqual([`1: ${number}`])
  expect(unresolvedIn(`test('[4-90, ${decision}, 2-30] …')\n// [0-01..0-03]\ncheck('4-13, ${number}', …)`)).toEqual([
    `1: ${decision}`,
    `3: ${number}`,
  ])
  expect(unresolvedIn(`(contract 2.5, ${section})`)).toEqual([`1: ${section}`])
  expect(unresolvedIn(`[${section}, C-72]`)).toEqual([`1: ${section}`])
  expect(unresolvedIn(`check('${section}, 4-90', …)`)).toEqual([`1: ${section}`])
  expect(unresolvedIn(`[0-01..0-${99}]`).length).toBeGreaterThan(0)
})

test('what only looks like a number is none', () => {
  expect(numbersIn("'4.18.0-553.el8', Range: bytes=0-99, 2026-08-31, ab4-10c, sb_0c1d-4-20")).toEqual([])
  expect(sectionsIn("[0.25, 1], ['127.0.0.1'], contract 24 hours, [2.5 s]")).toEqual([])
})

test('ranges and lists are read', () => {
  expect(numbersIn('[0-01..0-03, C-05], 2-60..62')).toEqual(['0-01', '0-02', '0-03', 'C-05', '2-60', '2-61', '2-62'])
  expect(sectionsIn('[2.14, C-72] (contract 3.10, 4.5), contract section 2.6. Contract\n * 9')).toEqual(['2.14', '3.10', '4.5', '2.6', '9'])
  expect(citedIn('[2.5, 4-31..4-33] a [b] title')).toEqual(['4-31', '4-32', '4-33', '2.5'])
})
