import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
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
  const imports = ['exec', 'up', 'ls'].map((name) => `${name}: () => import('./commands/${name}.ts')`)
  writeFileSync(
    join(cli, 'src/main.ts'),
    `const commands = { ${imports.join(', ')} }\n;(await commands[process.argv[2]]()).say(import.meta.filename)\n`,
  )
  writeFileSync(join(cli, 'src/commands/ls.ts'), say("'ls'"))
  writeFileSync(join(cli, 'src/commands/up.ts'), say('import.meta.dirname'))
  writeExec('one')
})
afterAll(() => rmSync(root, { recursive: true, force: true }))

/** A command that says something, and where the program is from. */
const say = (expression: string): string => `export const say = (path: string) => console.log(${expression}, path.split('/').at(-2))\n`

const writeExec = (word: string): void => writeFileSync(join(root, 'apps/cli/src/commands/exec.ts'), say(`'${word}'`))

const run = (command: string, env: NodeJS.ProcessEnv = {}, checkout = root): string =>
  execFileSync(join(checkout, 'apps/cli/bin/boxoffice'), [command], {
    encoding: 'utf8',
    env: { ...process.env, ...env },
    timeout: 60_000,
  }).trim()

test('commands and servers start from their bundle while that is of the sources as they are', async () => {
  const commands = join(root, 'apps/cli/src/commands')
  expect(run('exec')).toBe('one src')
  expect(run('up')).toBe(`${commands} src`)
  expect(await bundle(root)).toEqual(['commands', 'servers'])
  expect(run('exec')).toBe('one dist')
  // It finds what is beside its source.
  expect(run('up')).toBe(`${commands} dist`)
  expect(run('ls')).toBe('ls src')
  expect(await bundle(root)).toEqual([])

  writeExec('other')
  expect(run('exec')).toBe('other src')
  expect(run('up')).toBe(`${commands} dist`)
  expect(await bundle(root)).toEqual(['commands'])
  expect(run('exec')).toBe('other dist')

  rmSync(join(commands, 'exec.ts'))
  expect(() => run('exec')).toThrow()
})

test('a checkout that has moved starts from its sources until the next set-up', async () => {
  writeExec('here')
  await bundle(root)
  const moved = `${root}-moved`
  renameSync(root, moved)
  try {
    expect(run('up', {}, moved)).toBe(`${join(moved, 'apps/cli/src/commands')} src`)
    expect(await bundle(moved)).toEqual(['commands', 'servers'])
    expect(run('up', {}, moved)).toBe(`${join(moved, 'apps/cli/src/commands')} dist`)
  } finally {
    renameSync(moved, root)
  }
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
