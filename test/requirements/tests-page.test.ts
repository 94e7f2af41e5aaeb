import { expect, test } from 'vitest'
import type { Requirement } from './pages.ts'
import { mustBeShown } from './pages.ts'
import { type FileReport, showing, testsPage } from './tests-page.ts'

const line = (id: string, page: string, origin?: Requirement['origin']): Requirement => ({ id, page, origin })
const file = (name: string, ...assertionResults: FileReport['assertionResults']): FileReport => ({ name, assertionResults })
const ran = (title: string, status = 'passed', ...ancestorTitles: string[]) => ({ title, status, ancestorTitles })

test('a test is listed with each line that it or a group around it cites, under the path of its file', () => {
  const shown = showing([
    file('a/x.test.ts', ran('[4-90] states', 'passed', 'a group [C-51..C-52]')),
    file('b/x.test.ts', ran('[2.5, 4-90] the *matrix*')),
    file('b/x.docker.test.ts', ran('[2.5, 4-90] the *matrix*'), ran('[2.5, 4-90] the *matrix*', 'failed')),
  ])
  expect(shown.get('4-90')).toMatchObject({ runs: 4, passed: 3 })
  const lines = [line('4-90', 'access.md', 'S'), line('C-52', 'decisions.md'), line('C-53', 'decisions.md'), line('2.5', 'contract.md')]
  expect(testsPage(lines, shown).split('\n').slice(5)).toEqual([
    '## [access](access.md)',
    '',
    '- <a id="4-90"></a>[4-90](access.md#4-90)',
    '  - `a/x.test.ts`: states',
    '  - `b/x.docker.test.ts`, `b/x.test.ts`: the \\*matrix\\*',
    '',
    '## [decisions](decisions.md)',
    '',
    '- <a id="C-52"></a>[C-52](decisions.md#C-52)',
    '  - `a/x.test.ts`: states',
    '- <a id="C-53"></a>[C-53](decisions.md#C-53): no test cites it',
    '',
    '## [contract](contract.md)',
    '',
    '- <a id="2.5"></a>[2.5](contract.md#2.5)',
    '  - `b/x.docker.test.ts`, `b/x.test.ts`: the \\*matrix\\*',
    '',
  ])
})

test('a tag cites as a title does', () => {
  const shown = showing([file('a.test.ts', { ...ran('states'), tags: ['4-90', '2.5'] }, { ...ran('[4-90] ends'), tags: ['4-90'] })])
  expect(shown.get('4-90')).toMatchObject({ runs: 2, passed: 2 })
  expect([...(shown.get('2.5')?.titles.get('a.test.ts') ?? [])]).toEqual(['states'])
})

test('of many tests in one file some are named, the rest is counted', () => {
  const many = Array.from({ length: 8 }, (_, i) => ran(`[4-90] case ${i}`))
  const page = testsPage([line('4-90', 'access.md', 'S')], showing([file('a.test.ts', ...many)]))
  expect(page).toContain('  - `a.test.ts`: case 0; case 1; case 2; case 3; 4 more\n')
})

test('a whole run must show what the specification states or implies, on the pages 0-xx to 3-xx', () => {
  expect(mustBeShown(line('2-30', 'box.md', 'S'))).toBe(true)
  expect(mustBeShown(line('0-10', 'scopes.md', 'I'))).toBe(true)
  expect(mustBeShown(line('2-13', 'box.md', 'U'))).toBe(false)
  expect(mustBeShown(line('4-90', 'access.md', 'S'))).toBe(false)
  expect(mustBeShown(line('C-50', 'decisions.md'))).toBe(false)
})
