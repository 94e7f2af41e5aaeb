import { expect, test } from 'vitest'
import { Glob } from '../../src/files/glob.ts'

const PATHS = ['a.ts', 'b.json', 'src/a.ts', 'src/b.tsx', 'src/deep/er/c.ts', 'src/[id].ts', 'src', 'd']

test.each<[glob: string, paths: string[]]>([
  ['*.ts', ['a.ts', 'src/a.ts', 'src/deep/er/c.ts', 'src/[id].ts']],
  ['**', PATHS],
  ['*/*', ['src/a.ts', 'src/b.tsx', 'src/[id].ts']],
  ['**/*.ts', ['a.ts', 'src/a.ts', 'src/deep/er/c.ts', 'src/[id].ts']],
  ['./src/**', ['src/a.ts', 'src/b.tsx', 'src/deep/er/c.ts', 'src/[id].ts', 'src']],
  ['src/**/c.ts', ['src/deep/er/c.ts']],
  ['src/**/**/a.ts', ['src/a.ts']],
  ['src/a**', ['src/a.ts']],
  ['?.{ts,tsx}', ['a.ts', 'src/a.ts', 'src/b.tsx', 'src/deep/er/c.ts']],
  ['{src/{a,b}.ts*,d}', ['src/a.ts', 'src/b.tsx', 'd']],
  ['[a-b].ts', ['a.ts', 'src/a.ts']],
  ['{a..b}.ts', ['a.ts', 'src/a.ts']],
  ['[^a].*', ['b.json', 'src/b.tsx', 'src/deep/er/c.ts']],
  ['[!ab].*', ['src/deep/er/c.ts']],
  ['[id].ts', ['src/[id].ts']],
  ['\\[id\\].ts', ['src/[id].ts']],
  ['@(a|b).ts?(x)', ['a.ts', 'src/a.ts', 'src/b.tsx']],
  ['(a|b).json', ['b.json']],
  ['+(s|r|c)', ['src']],
  ['*(s|r)c*(x)', ['src']],
  ['!(a|b).ts', ['src/deep/er/c.ts', 'src/[id].ts']],
  ['!*.ts', ['b.json', 'src/b.tsx', 'src', 'd']],
  ['none*', []],
  ['{', []],
  ['[', []],
  ['(', []],
])('[1-42] %s', (text, paths) => {
  const glob = new Glob(text)
  expect(PATHS.filter((path) => glob.matches(path))).toEqual(paths)
})

test.each(['a|b', '{', '}', '{a}', 'a[', 'a(b', 'b)', 'a,b', '\\', '.', '$^'])('[1-42] %j stands for itself', (name) => {
  expect(new Glob(name).matches(name)).toBe(true)
  expect(new Glob(name).matches(`${name}x`)).toBe(false)
})

const NAME = 'a'.repeat(255)
const PATH = Array(16).fill(NAME).join('/')

// A regular expression takes from minutes to for ever for most of these.
test.each([
  ...[`${'*a'.repeat(500)}*b`, `${'**/'.repeat(300)}b`, `**/*${'?*'.repeat(300)}b`, `${'**/a*/'.repeat(100)}b`],
  ...[`${'{a,aa}'.repeat(150)}b`, `{${'{a,'.repeat(200)}a${'}'.repeat(200)},b}`, `${'{'.repeat(500)}${'}'.repeat(500)}`],
  ...[
    `**{${',*'.repeat(500)}}b`,
    `${'+(a|aa)'.repeat(140)}b`,
    `${'+('.repeat(340)}a${')'.repeat(340)}b`,
    `${'!(*a*)'.repeat(150)}`,
    `!(*!(*[${'bc'.repeat(490)}]))x/`,
  ],
  ...[`${'+(**/)'.repeat(150)}b`, '['.repeat(1000), `${'('.repeat(1000)}`, '\\'.repeat(1001), `[${'a-b'.repeat(300)}]*b`],
])('a hostile glob takes a bounded number of steps: %s', (text) => {
  const glob = new Glob(text)
  for (const path of [NAME, PATH])
    try {
      glob.matches(path)
    } catch (error) {
      expect(error).toMatchObject({ code: 'INVALID_REQUEST', message: 'pattern: takes too many steps for what is listed' })
    }
  expect(glob.steps).toBeLessThan(1_000_000)
})
