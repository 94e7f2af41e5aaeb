import { spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { readingsOf } from '../src/transfer/location.ts'
import { BOXOFFICE, run, start, startUp, type Up } from './support/program.ts'

let up: Up
beforeAll(async () => {
  up = await startUp()
})
afterAll(async () => {
  await up?.stop()
})
const boxoffice = (...args: string[]) => run(args, { env: up.env })

describe('errors are said in words of the command line', () => {
  test('a thread without a sandbox', async () => {
    const { code, stderr } = await boxoffice('ls', 'nobody:')
    expect(code).toBe(1)
    expect(stderr).toMatch(/^boxoffice: thread "nobody" has no sandbox; `boxoffice exec --thread nobody -- CMD` makes one \(BINDING_NOT/)
    expect(await boxoffice('cp', 'nobody:x', '.')).toMatchObject({ code: 1, stderr: expect.stringContaining('"nobody" has no sandbox') })
    expect((await boxoffice('ls', 'demo')).stderr).toContain('(the files of thread "demo": `boxoffice ls demo:`)')
  })

  test('the name of a thread where a file, a sandbox or a session is asked for', async () => {
    await boxoffice('exec', '--', 'true')
    expect(await boxoffice('ls', 'demo')).toMatchObject({
      ...{ code: 1, stderr: 'boxoffice: thread "default" has no file "demo" (the files of thread "demo": `boxoffice ls demo:`)\n' },
    })
    expect((await boxoffice('cp', '/etc/hostname', 'demo')).stderr).toMatch(
      /both are here: a thread has a colon behind it, as in default:\n$/,
    )
    expect(await boxoffice('sessions', 'release', 'demo')).toMatchObject({
      ...{ code: 1, stderr: 'boxoffice: "demo" is no session\'s id; `boxoffice sessions` lists them (ssn_…)\n' },
    })
    // One that has ended, or never was, is as it should be.
    expect((await boxoffice('sessions', 'release', 'ssn_gone')).code).toBe(0)
  })

  test.each([
    [['exec', '--thread', '', '--', 'true'], /^boxoffice: --thread: must not be empty \(/],
    [['sessions', '--state', 'weird'], /^boxoffice: --state: must be one of provisioning, /],
    [['keys', 'create', '--principal', 'p', '--role', 'king', 'n'], /Allowed choices are user, operator; --help shows what there is\n$/],
    [['up', '--provider', 'podman'], /^boxoffice: --provider: must be one of auto, kubernetes, docker, local\n$/],
    [['up', '--data-dir', import.meta.filename], /words\.test\.ts is below or is itself a file, not a directory; choose another\n$/],
    [['up', '--data-dir', `${import.meta.filename}/x`], /\.ts\/x is below or is itself a file, not a directory; choose another\n$/],
  ])('%j', async (args, message) => {
    const { code, stderr } = await boxoffice(...args)
    expect(code).toBeGreaterThan(0)
    expect(stderr).toMatch(message)
  })

  test('a profile that there is not', async () => {
    const { code, stderr } = await boxoffice('exec', '--profile', 'huge', '--', 'true')
    expect(code).toBe(125)
    expect(stderr).toMatch(/there is no profile "huge"; there are: default, /)
    expect(stderr).not.toContain('GET')
  })

  test('a key that the broker does not know, an address without a scheme', async () => {
    expect((await boxoffice('sessions', '--api-key', 'wrong')).stderr).toContain('--api-key or BOXOFFICE_API_KEY names another')
    expect((await boxoffice('sessions', '--broker', 'localhost:7070')).stderr).toBe(
      'boxoffice: broker (--broker, BOXOFFICE_URL): must be an http(s) URL, e.g. http://127.0.0.1:7070, not "localhost:7070"; did you mean http://localhost:7070?\n',
    )
  })

  test('nothing that answers', async () => {
    const server = createServer((socket) => socket.destroy())
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    const { port } = server.address() as { port: number }
    const { stderr } = await boxoffice('sessions', '--broker', `http://127.0.0.1:${port}`, '--api-key', 'x')
    expect(stderr).toMatch(/cannot be reached \([^)]+\); `boxoffice up` starts a Boxoffice on this machine/)
  })

  test('a warning of the broker', async () => {
    await boxoffice('exec', '--thread', 'warned', '--', 'true')
    const { code, stderr } = await boxoffice('exec', '--thread', 'warned', '--profile', 'offline_readonly', '--', 'true')
    expect(code).toBe(0)
    expect(stderr).toMatch(/^boxoffice: warning: the sandbox is there already, with another profile .*\(profile_differs\)\n$/)
  })
}, 120_000)

test('ls lists a file, and threads whose ids have colons', async () => {
  await boxoffice('exec', '--thread', 'a:b', '--', 'sh', '-c', 'echo 12345 > note')
  const { code, stdout } = await boxoffice('ls', '--thread', 'a:b', 'note')
  expect(code).toBe(0)
  expect(stdout).toMatch(/ 6 .* note\n$/)
  expect((await boxoffice('ls', 'a:b:')).stdout).toMatch(/ note\n/)
  const here = join(up.directory, 'note')
  expect(await boxoffice('cp', 'a:b:note', here)).toMatchObject({ code: 0, stderr: '' })
  writeFileSync(here, 'longer than before')
  expect(await boxoffice('cp', here, 'a:b:second')).toMatchObject({ code: 0, stderr: '' })
  expect((await boxoffice('exec', '--thread', 'a:b', '--', 'cat', 'second')).stdout).toBe('longer than before')
  expect(readingsOf({ kind: 'sandbox', thread: 'a', path: 'b:c/d:e' })).toEqual([
    { kind: 'sandbox', thread: 'a', path: 'b:c/d:e' },
    { kind: 'sandbox', thread: 'a:b', path: 'c/d:e' },
  ])
}, 120_000)

test('env prints what a program needs, as a shell reads it', async () => {
  const { stdout } = await boxoffice('env')
  const read = spawnSync('sh', ['-c', `${stdout}printf '%s %s' "$BOXOFFICE_URL" "$BOXOFFICE_API_KEY"`], { encoding: 'utf8' })
  expect(read.stdout).toBe(`${up.ready.broker_url} ${up.ready.api_key}`)
  expect(JSON.parse((await boxoffice('env', '--json')).stdout)).toEqual({
    ...{ BOXOFFICE_URL: up.ready.broker_url, BOXOFFICE_API_KEY: up.ready.api_key },
  })
}, 120_000)

test('a stop says what becomes of the sandboxes', async () => {
  for (const [flags, words] of [
    [[], 'Stopping: sandboxes stay, and the next start finds them again.\n'],
    [['--destroy-on-exit'], 'Stopping: all sandboxes end.\n'],
  ] as const) {
    const dataDir = join(up.directory, `farewell-${flags.length}`)
    const settings = ['--port', '0', '--agent-port', '0', '--provider', 'local', '--data-dir', dataDir, '--log-level', 'silent']
    const running = start(['up', ...settings, ...flags])
    onTestFinished(() => void running.child.kill('SIGTERM'))
    await running.says('Ctrl-C')
    running.child.kill('SIGINT')
    const { code, stderr } = await running.ended
    expect([code, stderr]).toEqual([0, words])
  }
}, 120_000)

test('set-up takes a supervisor that somebody has built, where there is no cargo', () => {
  const root = join(up.directory, 'checkout')
  const bin = join(root, 'packages/supervisor/bin')
  mkdirSync(bin, { recursive: true })
  mkdirSync(join(root, '.tools'))
  writeFileSync(join(root, 'packages/supervisor/Cargo.toml'), '')
  writeFileSync(join(root, '.tools/node'), '#!/bin/sh\necho no-such\n', { mode: 0o755 })
  const script = join(BOXOFFICE, '../../../../deploy/setup/supervisor.sh')
  const build = () =>
    spawnSync('/bin/sh', ['-euc', `say() { echo "$*" >&2; }; . "${script}"; build_supervisor`], {
      cwd: root,
      env: { PATH: '/nonexistent' },
    })
  expect([build().status, String(build().stderr)]).toEqual([1, expect.stringContaining('install Rust')])
  writeFileSync(join(bin, 'supervisor'), '#!/bin/sh\n', { mode: 0o755 })
  expect([build().status, String(build().stderr)]).toEqual([0, ''])
}, 120_000)
