import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { findLiteral, findRegex } from '../../../src/surfaces/langsmith/find-regex.ts'
import { tempDir } from '../../support/test-broker.ts'

const NAMES = ['a.py', 'a+b', 'a?b', '[x]', 'x^$', 'back\\slash', '{n}', 'c,d', 'deep/a.py', 'deep/er/b.ts', 'axpy']

test('what find matches is what the glob says', () => {
  const base = `${tempDir()}/a.+b`
  mkdirSync(`${base}/deep/er`, { recursive: true })
  for (const name of NAMES) writeFileSync(`${base}/${name}`, '')
  const found = (glob: string) =>
    execFileSync('find', [base, '-type', 'f', '-regex', `${findLiteral(base)}/${findRegex(glob)}`, '-printf', '%P\n'], { encoding: 'utf8' })
      .split('\n')
      .filter((name) => name !== '')
      .sort()
  for (const name of NAMES) expect(found(name.replace(/[?[\\{]/g, '\\$&')), name).toEqual([name])
  expect(found('*.py')).toEqual(['a.py'])
  expect(found('**/*.py')).toEqual(['a.py', 'deep/a.py'])
  expect(found('deep/**')).toEqual(['deep/a.py', 'deep/er/b.ts'])
  expect(found('**/*.{py,t{s,sx}}')).toEqual(['a.py', 'deep/a.py', 'deep/er/b.ts'])
  expect(found('a?py')).toEqual(['a.py', 'axpy'])
  expect(found('a[!.]py')).toEqual(['axpy'])
  expect(found('deep?a.py')).toEqual([])
})
