import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'

const HERE = resolve(import.meta.dirname, '..')
const filesOf = (group: string): string[] => readdirSync(join(HERE, group)).filter((name) => name.endsWith('.test.ts'))

test.each(['unit', 'integration', 'system', 'failure_modes'])('[3-63] there is a group %s, none of whose tests is left out', (group) => {
  expect(filesOf(group)).not.toEqual([])
  for (const file of filesOf(group))
    expect(readFileSync(join(HERE, group, file), 'utf8')).not.toMatch(/\b(test|describe|it)\.(skip|todo|only|fails)\b/)
})

test.each([
  ['session lifecycle', 'integration', '3-04'],
  ['step routing correctness', 'integration', '3-06'],
  ['sandbox isolation', 'integration', '3-22'],
  ['timeout handling', 'failure_modes', '3-13'],
  ['crash handling', 'failure_modes', '3-21'],
  ['closed session execution blocked', 'failure_modes', '3-18'],
])('[3-63] %s is tested in %s', (_, group, number) => {
  const titles = filesOf(group).flatMap((file) => readFileSync(join(HERE, group, file), 'utf8').match(/\btest\('\[[^\]]*\]/g) ?? [])
  expect(titles.some((title) => title.includes(number))).toBe(true)
})
