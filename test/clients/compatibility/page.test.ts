import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ROOT } from '../../e2e/support/program.ts'
import { readMatrices } from './matrix.ts'
import { compatibilityPage, PAGE } from './page.ts'
import { titlesIn } from './titles.ts'

const matrices = await readMatrices()

test('docs/clients/compatibility.md is what `npm run docs` writes', () => {
  expect(readFileSync(PAGE, 'utf8')).toBe(compatibilityPage(matrices))
})

test.for(matrices)('each operation of $client names a test of its suites', ({ suites, operations }) => {
  const titles = new Set(suites.flatMap((file) => [...titlesIn(file, readFileSync(join(ROOT, file), 'utf8'))]))
  expect(operations.filter((row) => !titles.has(row.test)).map((row) => `${row.operation}: ${row.test}`)).toEqual([])
  expect(new Set(operations.map(({ operation }) => operation)).size).toBe(operations.length)
})

test.for(matrices)('what of $client fails has a note', ({ operations }) => {
  expect(operations.filter(({ result, note }) => result === 'failed' && note === undefined)).toEqual([])
})

test('titles are found in TypeScript and in Python', () => {
  const typescript = "test('a', () => {}); test.for([1])(`b`, { tags: [] }, () => {}); describe('c', () => { test.runIf(x)('it\\'s d') })"
  expect([...titlesIn('a.test.ts', typescript)]).toEqual(['a', 'b', "it's d"])
  expect([...titlesIn('a.py', 'def test_a(): ...\nclass TestB:\n    async def test_c(self): ...\n')]).toEqual(['test_a', 'TestB', 'test_c'])
})
