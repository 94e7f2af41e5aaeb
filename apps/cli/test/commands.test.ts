import { execFileSync, spawnSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { chmodSync, mkdirSync, readFileSync, readlinkSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { get } from 'node:https'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { run, start, startInTerminal, startUp, upForAll } from './support/program.ts'

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')

const cli = upForAll()
const { boxoffice } = cli

describe('boxoffice up', () => {
  test('says in one line where it is and how safe it is', () => {
    expect(cli.up.ready).toMatchObject({
      event: 'ready',
      broker_url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
      agent_url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
      api_key: expect.stringMatching(/^bxo_[\w-]{43}$/),
      provider: 'local',
      isolation: expect.stringMatching(/^(bubblewrap|none)$/),
      pid: cli.up.up.child.pid,
    })
  })

  test('tells a person the same, with commands to try; ends with 0 on SIGTERM', async () => {
    const cwd = join(cli.up.directory, 'elsewhere')
    mkdirSync(cwd)
    const settings = ['--port', '0', '--agent-port', '0', '--provider', 'local', '--data-dir', join(cli.up.directory, 'second')]
    const running = start(['up', '--destroy-on-exit', ...settings], { cwd })
    await running.says('Ctrl-C')
    expect(running.stdout).toMatch(/provider\s+local, isolation/)
    expect(running.stdout).toMatch(/export BOXOFFICE_URL=http:\/\/127.0.0.1:\d+ BOXOFFICE_API_KEY=bxo_/)
    const [setting, ...commands] = [...running.stdout.matchAll(/^ {2}(export .*|\S*boxoffice .*)$/gm)].map(([line]) => line.trim())
    expect(commands).toHaveLength(3)
    for (const command of commands) {
      const typed = command.endsWith(' shell') ? `script -qec '${command}' /dev/null` : command
      const { status, stderr } = spawnSync('sh', ['-euc', `${setting}\n${typed}`], { cwd, input: 'exit\n' })
      expect({ command, status, stderr: String(stderr) }).toMatchObject({ command, status: 0 })
    }
    expect(readFileSync(join(cwd, 'system.txt'), 'utf8')).toContain('Linux')
    running.child.kill('SIGTERM')
    expect((await running.ended).code).toBe(0)
  })

  test('broker copy has options of its own, and says what is not there', async () => {
    const to = ['--to', 'postgres://boxoffice@127.0.0.1:1/boxoffice', '--secret-key-file', 'none']
    const { code, stderr } = await run(['broker', 'copy', '--from', '/nowhere', ...to], {})
    expect([code, stderr]).toEqual([1, "boxoffice: /nowhere has no broker's database (broker.db)\n"])
    const wrong = async (...args: string[]) => (await run(['broker', 'copy', '--from', '/nowhere', ...args], {})).stderr
    expect(await wrong()).toBe('boxoffice: --to (BOXOFFICE_DATABASE_URL): is required\n')
    expect(await wrong('--to', 'x')).toBe('boxoffice: --to: must look like postgres://USER:PASSWORD@HOST:PORT/DATABASE\n')
  })

  test('an agent with a wrong enroll token ends, and says which one it takes', async () => {
    const settings = ['--data-dir', join(cli.up.directory, 'stranger'), '--port', '0', '--provider', 'local', '--log-level', 'silent']
    const { code, stdout, stderr } = await run(
      ['agent', '--json', '--broker-url', String(cli.up.ready.broker_url), '--enroll-token', 'a-wrong-enroll-token', ...settings],
      {},
    )
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toMatch(/^boxoffice: the broker refused the enroll token; start the agent with the one of the broker/)
  })

  test('[C-49] publishes the next signing key on SIGHUP and goes on; sessions do not notice', async () => {
    const keys = async () => ((await (await fetch(`${cli.up.ready.broker_url}/.well-known/jwks.json`)).json()) as { keys: unknown[] }).keys
    const before = await keys()
    const waiting = start(['exec', '--thread', 'hangup', '--', 'sh', '-c', 'echo begun; cat'], { env: cli.up.env })
    await waiting.says('begun')
    cli.up.up.child.kill('SIGHUP')
    await expect.poll(async () => (await keys()).length, { timeout: 60_000 }).toBe(before.length + 1)
    expect(await keys()).toEqual(expect.arrayContaining(before))
    waiting.child.stdin?.end('still here')
    expect(await waiting.ended).toMatchObject({ code: 0, stdout: 'begun\nstill here' })
    expect(await boxoffice(['exec', '--thread', 'hangup', '--', 'true'])).toMatchObject({ code: 0 })
  })

  test('[4-58] listens with TLS, for clients of the broker and of the agent', async () => {
    const at = (name: string) => join(cli.up.directory, name)
    const names = 'subjectAltName=IP:127.0.0.1'
    const subject = ['-subj', '/CN=broker.example', '-addext', names, '-keyout', at('key.pem'), '-out', at('cert.pem')]
    execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '1', ...subject], { stdio: 'ignore' })
    const secure = await startUp(['--tls-cert', at('cert.pem'), '--tls-key', at('key.pem')])
    onTestFinished(async () => void (await secure.stop()))
    expect(secure.ready).toMatchObject({ broker_url: expect.stringMatching(/^https:/), agent_url: expect.stringMatching(/^https:/) })
    const env = { ...secure.env, NODE_EXTRA_CA_CERTS: at('cert.pem') }
    expect(await run(['exec', '--', 'echo', 'private'], { env })).toMatchObject({ code: 0, stdout: 'private\n' })
    expect(await run(['exec', '--', 'true'], { env: secure.env })).toMatchObject({ code: 125 })
  })

  test('[11] relays to its own listener with TLS too, whatever the certificate and the public URL say', async () => {
    const at = (name: string) => join(cli.up.directory, `named-${name}`)
    const subject = ['-subj', '/CN=boxoffice.invalid', '-addext', 'subjectAltName=DNS:boxoffice.invalid']
    const files = ['-keyout', at('key.pem'), '-out', at('cert.pem')]
    execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '1', ...subject, ...files], { stdio: 'ignore' })
    const tls = ['--tls-cert', at('cert.pem'), '--tls-key', at('key.pem')]
    const secure = await startUp([...tls, '--agent-public-url', 'https://boxoffice.invalid:1', '--relay', 'always'])
    onTestFinished(async () => void (await secure.stop()))
    // The client has no such luck with the name: it does not check it.
    const env = { ...secure.env, NODE_TLS_REJECT_UNAUTHORIZED: '0', NODE_NO_WARNINGS: '1' }
    expect(await run(['exec', '--', 'echo', 'relayed'], { env })).toMatchObject({ code: 0, stdout: 'relayed\n' })
    const ready = await new Promise<number | undefined>((resolve, reject) => {
      get(`${secure.ready.broker_url}/readyz`, { rejectUnauthorized: false }, ({ statusCode }) => resolve(statusCode)).on('error', reject)
    })
    expect(ready).toBe(200)
  })

  test('[9] without isolation is refused where others can reach the broker, though not the agent', async () => {
    const reachable = ['--host', '0.0.0.0', '--agent-host', '127.0.0.1', '--api-key', randomBytes(32).toString('hex')]
    const exposed = await startUp([...reachable, '--isolation', 'none'])
    onTestFinished(async () => void (await exposed.stop()))
    expect(exposed.ready).toMatchObject({ provider: null, isolation: null })
    const allowed = await startUp([...reachable, '--isolation', 'none', '--allow-unsafe-local'])
    onTestFinished(async () => void (await allowed.stop()))
    expect(allowed.ready).toMatchObject({ provider: 'local', isolation: 'none' })
  })

  test('on a port that is taken says so in one line and ends with 1', async () => {
    const server = createServer()
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as { port: number }
    const { code, stderr } = await run([
      'up',
      '--json',
      '--log-level',
      'silent',
      '--port',
      String(port),
      '--agent-port',
      '0',
      '--data-dir',
      join(cli.up.directory, 'third'),
    ])
    server.close()
    expect(code).toBe(1)
    expect(stderr).toMatch(new RegExp(`^boxoffice: .*${port}.*--port.*\\n$`))
  })

  test('with a bad setting names it', async () => {
    expect(await run(['up', '--port', 'abc'])).toMatchObject({ code: 1, stderr: expect.stringMatching(/^boxoffice: --port: /) })
    expect(await run(['agent'], { env: { BOXOFFICE_DATA_DIR: join(cli.up.directory, 'fourth') } })).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^boxoffice: --broker-url .*required/),
    })
  })
})

describe('boxoffice exec', () => {
  test('passes output, errors and the exit code on', async () => {
    const ended = await boxoffice(['exec', '--', 'sh', '-c', 'echo out; echo err >&2; exit 3'])
    expect(ended).toMatchObject({ code: 3, stdout: 'out\n', stderr: 'err\n' })
  })

  test('gives a program its arguments as they are, and a shell its line', async () => {
    expect((await boxoffice(['exec', '--', 'printf', '%s|', 'a b', '$HOME', '*'])).stdout).toBe('a b|$HOME|*|')
    expect((await boxoffice(['exec', '-c', 'echo $((6 * 7)) | cat'])).stdout).toBe('42\n')
    expect((await boxoffice(['exec', 'ls', '-d', '/'])).stdout).toBe('/\n')
  })

  test('streams both ways, to the byte', async () => {
    const bytes = randomBytes(8_000_000)
    const ended = await boxoffice(['exec', '--', 'cat'], bytes)
    expect(ended.code).toBe(0)
    expect(sha256(ended.bytes)).toBe(sha256(bytes))
  })

  test('knows directory, variables and time', async () => {
    const ended = await boxoffice(['exec', '--cwd', '/tmp', '--env', 'A=b=c', '--', 'sh', '-c', 'pwd; echo $A'])
    expect(ended.stdout).toBe('/tmp\nb=c\n')
    expect((await boxoffice(['exec', '--timeout', '0.3', '--', 'sleep', '30'])).code).toBe(124)
  })

  test('exits with 128+n after a signal, 127 without a program', async () => {
    expect((await boxoffice(['exec', '-c', 'kill -TERM $$'])).code).toBe(143)
    const missing = await boxoffice(['exec', '--', 'no-such-program'])
    expect(missing).toMatchObject({ code: 127, stderr: expect.stringMatching(/^boxoffice: the command could not start: /) })
  })

  test.for([
    ['SIGINT', 'INT', 42],
    ['SIGTERM', 'TERM', 43],
  ] as const)('forwards %s', async ([signal, trap, code]) => {
    const running = start(['exec', '-c', `trap 'exit ${code}' ${trap}; echo up; while :; do sleep 0.05; done`], { env: cli.up.env })
    await running.says('up')
    running.child.kill(signal)
    expect((await running.ended).code).toBe(code)
  })

  test('ends when its reader is gone', async () => {
    const running = start(['exec', '--', 'yes'], { env: cli.up.env })
    await running.says('y\ny\n')
    running.child.stdout?.destroy()
    expect((await running.ended).code).toBe(141)
  })

  test('exits with 125 for failures of its own, with the message', async () => {
    expect(await boxoffice(['exec', '--api-key', 'wrong', '--', 'true'])).toMatchObject({
      code: 125,
      stderr: expect.stringMatching(/UNAUTHENTICATED, request req_/),
    })
    expect(await boxoffice(['exec', '--broker', 'http://127.0.0.1:9', '--api-key', 'x', '--', 'true'])).toMatchObject({
      code: 125,
      stderr: expect.stringMatching(/^boxoffice: .*cannot be reached/),
    })
    expect(await boxoffice(['exec'])).toMatchObject({ code: 125, stderr: expect.stringMatching(/no command/) })
    expect((await boxoffice(['exec', '--bogus'])).code).toBe(125)
    expect((await boxoffice(['exec', '--env', 'x', '--', 'true'])).code).toBe(125)
  })

  test('has a sandbox for each thread', async () => {
    await boxoffice(['exec', '--thread', 'one', '-c', 'echo 1 > mine'])
    expect((await boxoffice(['exec', '--thread', 'one', '--', 'cat', 'mine'])).stdout).toBe('1\n')
    expect((await boxoffice(['exec', '--thread', 'two', '--', 'cat', 'mine'])).code).toBe(1)
  })
})

describe('boxoffice shell', () => {
  test('is a terminal: size, keys, resize; and leaves the terminal as it was', async () => {
    const terminal = startInTerminal(['shell'], { env: cli.up.env })
    terminal.write('tty; stty size; echo "at $((40+2))"\n')
    await terminal.says(/\/dev\/pts\/\d+\s+30 100\s+at 42/)
    terminal.write('\0RESIZE 120 40\n')
    await expect
      .poll(
        () => {
          terminal.write('stty size\n')
          return terminal.stdout
        },
        { timeout: 60_000, interval: 200 },
      )
      .toContain('40 120')
    terminal.write('exit 7\n')
    await terminal.says('ENDED 7 restored')
  })

  test('restores the terminal on a signal, and can be joined again', async () => {
    const first = startInTerminal(['shell', '--id', 'kept'], { env: cli.up.env })
    first.write('name=value; echo "got $name"1\n')
    await first.says('got value1')
    first.write('\0SIGNAL 15\n')
    await first.says('ENDED 143 restored')
    const second = startInTerminal(['shell', '--id', 'kept'], { env: cli.up.env })
    await second.says('got value1')
    second.write('echo "still $name"2; exit\n')
    await second.says('still value2')
    await second.says('ENDED 0 restored')
  })

  test('that cannot be opened exits with 125', async () => {
    const ended = await boxoffice(['shell', '--api-key', 'wrong'])
    expect(ended).toMatchObject({ code: 125, stderr: expect.stringMatching(/UNAUTHENTICATED/) })
  })
})

describe('boxoffice cp, ls', () => {
  test('carry a file both ways, with its mode', async () => {
    const bytes = randomBytes(3_000_000)
    const [source, back] = [join(cli.up.directory, 'file'), join(cli.up.directory, 'back')]
    writeFileSync(source, bytes)
    chmodSync(source, 0o750)
    expect(await boxoffice(['cp', source, 'copies:in/'])).toMatchObject({ code: 0, stderr: '' })
    expect((await boxoffice(['exec', '--thread', 'copies', '--', 'stat', '-c', '%a %s', 'in/file'])).stdout).toBe('750 3000000\n')
    expect((await boxoffice(['cp', '--thread', 'copies', ':in/file', back])).code).toBe(0)
    expect(sha256(readFileSync(back))).toBe(sha256(bytes))
    expect(statSync(back).mode & 0o777).toBe(0o750)
  })

  test('show on a terminal how far they are', async () => {
    const source = join(cli.up.directory, 'watched')
    writeFileSync(source, randomBytes(3_000_000))
    for (const [from, to] of [
      [source, 'watched:file'],
      ['watched:file', join(cli.up.directory, 'watched-back')],
    ] as const) {
      const copying = startInTerminal(['cp', from, to], { env: cli.up.env })
      copying.child.stdin?.end()
      expect((await copying.ended).stdout).toMatch(/100%\s+2\.9 of 2\.9 MiB/)
    }
  })

  test('carry directories both ways, with what is in them', async () => {
    const source = join(cli.up.directory, 'tree')
    mkdirSync(join(source, 'sub/empty'), { recursive: true })
    writeFileSync(join(source, 'a name with späce\n'), 'text')
    writeFileSync(join(source, 'sub/big'), randomBytes(1_500_000))
    symlinkSync('sub/big', join(source, 'link'))
    expect(await boxoffice(['cp', source, 'trees:tree'])).toMatchObject({ code: 0, stderr: '' })
    const listed = JSON.parse((await boxoffice(['ls', '--json', '-r', 'trees:tree'])).stdout) as { files: { path: string; type: string }[] }
    expect(listed.files.map(({ path, type }) => `${path.replace(/^tree\//, '')}:${type}`).sort()).toEqual(
      ['a name with späce\n:file', 'link:symlink', 'sub/big:file', 'sub/empty:directory', 'sub:directory'].sort(),
    )
    const back = join(cli.up.directory, 'tree-back')
    expect((await boxoffice(['cp', 'trees:tree', back])).code).toBe(0)
    expect(readFileSync(join(back, 'a name with späce\n'), 'utf8')).toBe('text')
    expect(readFileSync(join(back, 'sub/big')).equals(readFileSync(join(source, 'sub/big')))).toBe(true)
    expect(readlinkSync(join(back, 'link'))).toBe('sub/big')
    expect((await stat(join(back, 'sub/empty'))).isDirectory()).toBe(true)
  })

  test('carry names that are not UTF-8 both ways, byte for byte', async () => {
    const bytes = (text: string): Buffer => Buffer.from(text, 'latin1')
    const [odd, long] = ['caf\xe9', `${'\xff\xc3\xa9/'.repeat(40)}deep`]
    const source = join(cli.up.directory, 'odd')
    mkdirSync(bytes(`${source}/${dirname(long)}`), { recursive: true })
    writeFileSync(bytes(`${source}/${odd}`), 'odd')
    writeFileSync(bytes(`${source}/${long}`), 'long')
    symlinkSync(bytes(odd), bytes(`${source}/link\xfe`))
    expect(await boxoffice(['cp', source, 'odd:tree'])).toMatchObject({ code: 0, stderr: '' })
    const read = "cd tree && cat $'caf\\xe9' $'link\\xfe' && readlink $'link\\xfe' | od -An -tx1"
    expect((await boxoffice(['exec', '--thread', 'odd', '--', 'bash', '-c', read])).stdout).toMatch(/^oddodd 63 61 66 e9 0a\n$/)

    const back = join(cli.up.directory, 'odd-back')
    expect(await boxoffice(['cp', 'odd:tree', back])).toMatchObject({ code: 0, stderr: '' })
    expect(readFileSync(bytes(`${back}/${long}`), 'utf8')).toBe('long')
    expect(readlinkSync(bytes(`${back}/link\xfe`), { encoding: 'buffer' })).toEqual(bytes(odd))

    // One file, by the text of its name: it keeps its bytes.
    expect(await boxoffice(['cp', 'odd:tree/caf\u{10fee9}', `${cli.up.directory}/`])).toMatchObject({ code: 0, stderr: '' })
    expect(readFileSync(bytes(`${cli.up.directory}/${odd}`), 'utf8')).toBe('odd')
    expect(await boxoffice(['cp', join(cli.up.directory, 'caf\u{10fee9}'), 'odd:again/'])).toMatchObject({ code: 0, stderr: '' })
    const listed = JSON.parse((await boxoffice(['ls', '--json', 'odd:again'])).stdout) as { files: { path: string }[] }
    expect(listed.files.map(({ path }) => path)).toEqual(['again/caf\u{10fee9}'])
    // What Node makes of such an argument.
    for (const args of [
      [join(cli.up.directory, 'caf\ufffd'), 'odd:x'],
      ['odd:again/caf\u{10fee9}', join(cli.up.directory, 'new\ufffd')],
    ])
      expect(await boxoffice(['cp', ...args])).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(/the name is not UTF-8; write each/),
      })
  })

  test('say what is wrong', async () => {
    expect(await boxoffice(['cp', 'a', 'b'])).toMatchObject({ code: 1, stderr: expect.stringMatching(/one of the two/) })
    expect(await boxoffice(['cp', join(cli.up.directory, 'nope'), 'copies:x'])).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/no such file.*nope/),
    })
    expect(await boxoffice(['cp', 'copies:nope', '/tmp/x'])).toMatchObject({ code: 1, stderr: expect.stringMatching(/FILE_NOT_FOUND/) })
    expect(await boxoffice(['ls', 'never-seen:'])).toMatchObject({ code: 1, stderr: expect.stringMatching(/_NOT_FOUND/) })
  })
})

describe('boxoffice sessions, keys', () => {
  test('list and release sessions', async () => {
    await boxoffice(['exec', '--thread', 'listed', '--', 'true'])
    const list = async () =>
      (JSON.parse((await boxoffice(['sessions', '--json'])).stdout) as { sessions: { id: string; scope: { id: string } }[] }).sessions
    const session = (await list()).find(({ scope }) => scope.id === 'listed')
    expect(session?.id).toMatch(/^ssn_/)
    expect((await boxoffice(['sessions'])).stdout).toMatch(/^SESSION +THREAD +STATE/)
    expect((await boxoffice(['sessions', 'release', String(session?.id)])).code).toBe(0)
    expect((await boxoffice(['sessions', 'release', String(session?.id)])).code).toBe(0)
    expect((await boxoffice(['ls', 'listed:'])).code).toBe(1)
  })

  test('make a key that works until it is revoked', async () => {
    const created = await boxoffice(['keys', 'create', 'ci', '--principal', 'robot', '--json'])
    const { id, key } = JSON.parse(created.stdout) as { id: string; key: string }
    expect((await boxoffice(['exec', '--api-key', key, '--thread', 'robots', '--', 'echo', 'hi'])).stdout).toBe('hi\n')
    const listed = await boxoffice(['keys', 'list', '--json'])
    expect(listed.stdout).toContain(id)
    expect(listed.stdout).not.toContain(key)
    expect((await boxoffice(['keys', 'list', '--api-key', key])).stderr).toMatch(/FORBIDDEN/)
    expect((await boxoffice(['keys', 'revoke', id])).code).toBe(0)
    await expect.poll(async () => (await boxoffice(['sessions', '--api-key', key])).stderr, { timeout: 60_000 }).toMatch(/UNAUTHENTICATED/)
  })

  test('[C-50] make an enroll token, list it without its secret, revoke it', async () => {
    const created = await boxoffice(['agents', 'enroll-token', 'create', 'for-one', '--one-use', '--expires-in', '600', '--json'])
    const { id, token } = JSON.parse(created.stdout) as { id: string; token: string }
    const listed = await boxoffice(['agents', 'enroll-token', 'list'])
    expect(listed.stdout).toMatch(new RegExp(`^${id} +for-one +one `, 'm'))
    expect(listed.stdout).not.toContain(token)
    expect((await boxoffice(['agents', 'enroll-token', 'revoke', id])).code).toBe(0)
    expect((await boxoffice(['agents', 'enroll-token', 'revoke', id])).stderr).toMatch(/NOT_FOUND/)
    expect((await boxoffice(['agents', 'enroll-token', 'create', 'x', '--expires-in', 'soon'])).stderr).toMatch(/whole number of seconds/)
  })

  test('[C-49] rotate the signing keys; with --now those of before are refused, and sessions go on', async () => {
    expect((await boxoffice(['keys', 'rotate'])).stdout).toMatch(/^the next key is published/)
    const { code, stdout } = await boxoffice(['keys', 'rotate', '--now', '--json'])
    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({ kid: expect.any(String), agents_told: 1, agents_not_reached: [] })
    expect(await boxoffice(['exec', '--thread', 'rotated', '--', 'echo', 'hi'])).toMatchObject({ code: 0, stdout: 'hi\n' })
  })
})

describe('boxoffice doctor', () => {
  test('has one line per check', async () => {
    const { code, stdout } = await run(['doctor', '--provider', 'local'], { env: { ...cli.up.env } })
    expect(
      stdout
        .trim()
        .split('\n')
        .map((line) => line.split(/ {2,}/)[0]),
    ).toEqual(['bwrap', 'supervisor', 'port 7070', 'port 7071', 'broker', 'clock', 'disk', 'capacity'])
    expect(code).toBe(stdout.includes('FAIL') ? 1 : 0)
  })

  test('exits with 1 and says what to do when the engine does not answer', async () => {
    const { code, stdout } = await run(['doctor', '--json'], { env: { DOCKER_HOST: 'unix:///nowhere/docker.sock' } })
    expect(code).toBe(1)
    const { checks } = JSON.parse(stdout) as { checks: { name: string; ok: boolean; message: string }[] }
    expect(checks.find(({ name }) => name === 'engine')).toMatchObject({ ok: false, message: expect.stringMatching(/start Docker/) })
  })
})
