import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { start, startInTerminal, upForAll } from './support/program.ts'

const cli = upForAll()
const { boxoffice } = cli

type Listed = { secrets: { name: string; version: number; description: string | null }[] }
const list = async (): Promise<Listed['secrets']> => (JSON.parse((await boxoffice(['secrets', 'ls', '--json'])).stdout) as Listed).secrets

/** What every process of this machine was started with. */
const commandLines = (): string =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
      } catch {
        return ''
      }
    })
    .join('\n')

test('a secret is set from standard input, listed without its value, changed and removed', async () => {
  const set = await boxoffice(['secrets', 'set', 'gh_token', '--description', 'of a robot'], 'CANARY-one\n')
  expect(set).toMatchObject({ code: 0, stdout: 'gh_token has version 1\n', stderr: '' })
  const again = await boxoffice(['secrets', 'set', 'gh_token', '--json'], 'CANARY-two')
  expect(JSON.parse(again.stdout)).toMatchObject({ name: 'gh_token', version: 2, description: 'of a robot' })
  expect(again.stdout).not.toContain('CANARY')
  const listed = await boxoffice(['secrets', 'ls'])
  expect(listed.stdout).toMatch(/^NAME +VERSION +UPDATED +CREATED BY +DESCRIPTION\ngh_token +2 .* of a robot\n$/)
  expect((await boxoffice(['secrets', 'rm', 'gh_token'])).code).toBe(0)
  expect((await boxoffice(['secrets', 'rm', 'gh_token'])).stderr).toMatch(/no such secret \(NOT_FOUND/)
  expect(await list()).toEqual([])
})

test('what is no secret is refused, and never quoted', async () => {
  const refused = [
    await boxoffice(['secrets', 'set', 'x', 'CANARY'], ''),
    await boxoffice(['secrets', 'set', 'x'], ''),
    await boxoffice(['secrets', 'set', 'x'], '\n'),
    await boxoffice(['secrets', 'set', 'x'], 'CANARY\0'),
    await boxoffice(['secrets', 'set', 'x'], Buffer.from('CANARY\xff', 'latin1')),
    await boxoffice(['secrets', 'set', 'x'], `CANARY${'x'.repeat(2_000_000)}`),
    await boxoffice(['secrets', 'set', 'x'], `CANARY${'x'.repeat(600_000)}`),
    await boxoffice(['secrets', 'set', 'x'], `CANARY${'x'.repeat(65_530)}y`),
    await boxoffice(['secrets', 'set', '.x'], 'CANARY'),
  ]
  expect(refused.map(({ code }) => code)).toEqual(refused.map(() => 1))
  for (const { stdout, stderr } of refused) {
    expect(stderr).toMatch(/^boxoffice: .*\n$/)
    expect(stdout + stderr).not.toContain('CANARY')
  }
  expect(await list()).toEqual([])
  expect((await boxoffice(['secrets', 'set', 'longest', '--exact'], `${'x'.repeat(65_535)}\n`)).code).toBe(0)
  expect((await boxoffice(['secrets', 'set', 'longest'], `${'x'.repeat(65_536)}\r\n`)).code).toBe(0)
  await boxoffice(['secrets', 'rm', 'longest'])
})

test('while it is read and sent the value is in no command line', async () => {
  const setting = start(['secrets', 'set', 'quiet'], { env: cli.up.env })
  setting.write('CANARY-in-no-')
  expect(commandLines()).toContain('secrets\0set\0quiet')
  setting.child.stdin?.end('command-line')
  while (setting.child.exitCode === null) {
    expect(commandLines()).not.toContain('CANARY-in-no-')
    await new Promise((resolve) => setImmediate(resolve))
  }
  expect((await setting.ended).code).toBe(0)
  await boxoffice(['secrets', 'rm', 'quiet'])
})

test('a person at a terminal types it without seeing it, and may leave', async () => {
  const typed = startInTerminal(['secrets', 'set', 'typed'], { env: cli.up.env })
  await typed.says('Value of typed: ')
  typed.write('CANARX\x7fY\r')
  await typed.says('ENDED 0 restored')
  expect(typed.stdout).toContain('typed has version 1')
  expect(typed.stdout).not.toMatch(/CANAR/)
  for (const key of ['\x03', '\x04']) {
    const left = startInTerminal(['secrets', 'set', 'left'], { env: cli.up.env })
    await left.says('Value of left: ')
    left.write(key)
    await left.says('ENDED 130 restored')
  }
  expect((await list()).map(({ name }) => name)).toEqual(['typed'])
  await boxoffice(['secrets', 'rm', 'typed'])
})

test('the key that secrets are sealed under is changed while the broker runs', async () => {
  await boxoffice(['secrets', 'set', 'sealed'], 'CANARY')
  const dataDir = join(cli.up.directory, 'data')
  const file = join(dataDir, 'broker', 'secret-keys')
  expect((await boxoffice(['keys', 'make-secret-key', '--add', file])).code).toBe(0)
  const { code, stdout } = await boxoffice(['keys', 'rekey', '--data-dir', dataDir, '--json'])
  expect([code, JSON.parse(stdout)]).toMatchObject([0, { resealed: 1, already: 0, changed: 0, unreadable: [] }])
  expect((await boxoffice(['keys', 'rekey', '--data-dir', dataDir])).stdout).toMatch(
    /^0 rows are sealed under [0-9a-f]{16} now; 1 were before$/m,
  )
  expect((await boxoffice(['secrets', 'set', 'sealed'], 'CANARY')).stdout).toBe('sealed has version 2\n')
  await boxoffice(['secrets', 'rm', 'sealed'])
})
