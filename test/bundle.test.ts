import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { bundle } from '../deploy/package/bundle.ts'

let root: string
/** A checkout whose commands say who they are. */
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), 'boxoffice-bundle-'))
  const cli = join(root, 'apps/cli')
  for (const directory of [join(cli, 'src/commands'), join(root, '.tools')]) mkdirSync(directory, { recursive: true })
  cpSync(resolve(import.meta.dirname, '../apps/cli/bin'), join(cli, 'bin'), { recursive: true })
  symlinkSync(process.execPath, join(root, '.tools/node'))
  writeFileSync(join(cli, 'package.json'), '{"type":"module"}')
  writeFileSync(
    join(cli, 'src/main.ts'),
    "const { say } = process.argv[2] === 'up' ? await import('./commands/up.ts') : await import('./commands/exec.ts')\nsay(import.meta.url)\n",
  )
  writeFileSync(join(cli, 'src/commands/up.ts'), 'export const say = console.log\n')
  writeExec('one')
})
afterAll(() => rmSync(root, { recursive: true, force: true }))

const writeExec = (word: string): void =>
  writeFileSync(
    join(root, 'apps/cli/src/commands/exec.ts'),
    `export const say = (url: string): void => console.log(\`${word} \${url.split('/').at(-2)}\`)\n`,
  )

const run = (command: string, env: NodeJS.ProcessEnv = {}): string =>
  execFileSync(join(root, 'apps/cli/bin/boxoffice'), [command], {
    encoding: 'utf8',
    env: { ...process.env, ...env },
    timeout: 60_000,
  }).trim()

test('exec starts from the bundle while that is of the sources as they are, and a server always from its sources', async () => {
  expect(run('exec')).toBe('one src')
  expect(await bundle(root)).toBe(true)
  expect(run('exec')).toBe('one dist')
  expect(run('up')).toMatch(/cli\/src\/main\.ts$/)
  expect(await bundle(root)).toBe(false)

  writeExec('other')
  expect(run('exec')).toBe('other src')
  expect(await bundle(root)).toBe(true)
  expect(run('exec')).toBe('other dist')

  rmSync(join(root, 'apps/cli/src/commands/exec.ts'))
  expect(() => run('exec')).toThrow()
})

test('a cache that cannot be written keeps nobody from starting', () => {
  writeExec('again')
  expect(run('exec', { NODE_COMPILE_CACHE: '/dev/null/cache' })).toBe('again src')
})

test('the C library gives large buffers back to the system, unless whoever starts the program has set it otherwise', () => {
  writeFileSync(
    join(root, 'apps/cli/src/commands/exec.ts'),
    'export const say = (): void => console.log(process.env.MALLOC_MMAP_THRESHOLD_, process.env.MALLOC_TRIM_THRESHOLD_)\n',
  )
  expect(run('exec')).toBe('262144 8388608')
  expect(run('exec', { MALLOC_MMAP_THRESHOLD_: '131072', MALLOC_TRIM_THRESHOLD_: '0' })).toBe('131072 0')
})
