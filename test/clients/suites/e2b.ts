import { gzipSync } from 'node:zlib'
import { connect } from '@boxoffice/client'
import { AuthenticationError, CommandExitError, FileNotFoundError, NotFoundError, Sandbox, SandboxNotFoundError, TimeoutError } from 'e2b'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { API_KEY, type ProviderName, type Stack, startStack } from '../../e2e/support/stack.ts'
import { programsOf, runProgram } from '../support/page-programs.ts'

const enc = new TextEncoder()

/** E2B's published SDK against a running Boxoffice (contract 7.3). `whole`: every case, not only those of another engine. */
export const e2bSuite = (provider: ProviderName, { whole }: { whole: boolean }): void => {
  let stack: Stack
  let shared: Sandbox
  const at = () => {
    const url = `${stack.brokerUrl}/compat/e2b`
    return { apiUrl: url, sandboxUrl: url, apiKey: API_KEY, validateApiKey: false }
  }
  /** The in-sandbox API as it is, with what the SDK sends; `headers` beat it. */
  const envd = (path: string, { headers, ...init }: RequestInit & { headers: Record<string, string> }): Promise<Response> => {
    const own = { 'e2b-sandbox-id': shared.sandboxId, 'x-access-token': (shared as unknown as { envdAccessToken: string }).envdAccessToken }
    return fetch(`${at().apiUrl}${path}`, { ...init, headers: { ...own, ...headers } })
  }
  beforeAll(async () => {
    stack = await startStack({ provider })
    shared = await Sandbox.create(at())
  })
  afterAll(async () => {
    await stack[Symbol.asyncDispose]()
  })

  test('a command gives its output and exit code', async () => {
    const result = await shared.commands.run('echo out; echo err >&2; pwd', { envs: { A: 'b' } })
    expect(result).toMatchObject({ stdout: 'out\n/workspace\n', stderr: 'err\n', exitCode: 0 })
    await expect(shared.commands.run('echo "$A"; exit 42', { envs: { A: 'b c' } })).rejects.toMatchObject({
      exitCode: 42,
      stdout: 'b c\n',
    })
  })

  test('a file is written, read, listed, moved and removed', async () => {
    const { files } = shared
    await files.write('notes/a b.txt', 'grüße\n')
    expect(await files.read('notes/a b.txt')).toBe('grüße\n')
    expect(await files.exists('notes/none')).toBe(false)
    await files.write([
      { path: 'notes/one.bin', data: new Uint8Array([0, 1, 255]).buffer },
      { path: '/tmp/two.txt', data: 'two' },
    ])
    expect([...(await files.read('notes/one.bin', { format: 'bytes' }))]).toEqual([0, 1, 255])
    expect(await files.read('/tmp/two.txt')).toBe('two')
    expect((await files.list('notes')).map(({ name, type, path }) => [name, type, path])).toEqual([
      ['a b.txt', 'file', '/workspace/notes/a b.txt'],
      ['one.bin', 'file', '/workspace/notes/one.bin'],
    ])
    expect(await files.makeDir('notes/deep/er')).toBe(true)
    expect(await files.makeDir('notes/deep/er')).toBe(false)
    const moved = await files.rename('notes/one.bin', 'notes/deep/one.bin')
    expect(moved).toMatchObject({ path: '/workspace/notes/deep/one.bin', size: 3, type: 'file' })
    expect(await files.getInfo('notes/deep')).toMatchObject({ name: 'deep', type: 'dir' })
    await files.remove('notes')
    expect(await files.exists('notes')).toBe(false)
    await expect(files.read('notes/none')).rejects.toBeInstanceOf(FileNotFoundError)
    await expect(files.list('notes')).rejects.toBeInstanceOf(NotFoundError)
  })

  test('a background command has stdin, is listed, connected to and killed', async () => {
    const { commands } = shared
    const cat = await commands.run('cat', { background: true, stdin: true })
    await commands.sendStdin(cat.pid, 'one\n')
    await commands.sendStdin(cat.pid, enc.encode('two\n'))
    expect((await commands.list()).map(({ pid, cmd, args }) => ({ pid, cmd, args }))).toContainEqual({
      pid: cat.pid,
      cmd: '/bin/bash',
      args: ['-l', '-c', 'cat'],
    })
    await cat.closeStdin()
    expect(await cat.wait()).toMatchObject({ stdout: 'one\ntwo\n', exitCode: 0 })
    // The output of a command that has ended is replayed.
    expect(await (await commands.connect(cat.pid)).wait()).toMatchObject({ stdout: 'one\ntwo\n' })

    const sleeper = await commands.run('echo up; exec sleep 600', { background: true })
    await sleeper.disconnect()
    const up = Promise.withResolvers<void>()
    const again = await commands.connect(sleeper.pid, { onStdout: () => up.resolve() })
    await up.promise
    expect(await again.kill()).toBe(true)
    await expect(again.wait()).rejects.toBeInstanceOf(CommandExitError)
    expect(again.stdout).toBe('up\n')
    expect(await commands.kill(sleeper.pid)).toBe(false)
  })
  test('a terminal takes input and another size', async () => {
    let shown = ''
    const seen = Promise.withResolvers<void>()
    const terminal = await shared.pty.create({
      cols: 80,
      rows: 24,
      onData: (data) => {
        shown += new TextDecoder().decode(data)
        if (/size 40 120/.test(shown)) seen.resolve()
      },
    })
    await shared.pty.resize(terminal.pid, { cols: 120, rows: 40 })
    await shared.pty.sendInput(terminal.pid, enc.encode('echo "size $(stty size)"\n'))
    await seen.promise
    await shared.pty.sendInput(terminal.pid, enc.encode('exit 0\n'))
    expect(await terminal.wait()).toMatchObject({ exitCode: 0 })
  })

  test('a sandbox is paused, resumed and killed', async () => {
    const sandbox = await Sandbox.create({ ...at(), timeoutMs: 600_000, metadata: { purpose: 'pause' } })
    expect(sandbox.sandboxId).toMatch(/^[a-z0-9]{20}$/)
    await sandbox.commands.run('echo kept > kept.txt')
    const listing = Sandbox.list({ ...at(), query: { metadata: { purpose: 'pause' } } })
    expect((await listing.nextItems()).map(({ sandboxId, state }) => [sandboxId, state])).toEqual([[sandbox.sandboxId, 'running']])
    expect(await sandbox.isRunning()).toBe(true)
    expect(await sandbox.pause()).toBe(true)
    expect(await sandbox.pause()).toBe(false)
    expect(await sandbox.isRunning()).toBe(false)
    await expect(sandbox.commands.run('true')).rejects.toBeInstanceOf(Error)
    expect((await Sandbox.getInfo(sandbox.sandboxId, at())).state).toBe('paused')
    const again = await Sandbox.connect(sandbox.sandboxId, at())
    expect(await again.files.read('kept.txt')).toBe('kept\n')
    // The token of before is as good as the new one.
    expect(await sandbox.isRunning()).toBe(true)
    expect(await sandbox.kill()).toBe(true)
    expect(await sandbox.kill()).toBe(false)
    expect(await again.isRunning()).toBe(false)
    await expect(Sandbox.connect(sandbox.sandboxId, at())).rejects.toBeInstanceOf(SandboxNotFoundError)
    await expect(again.commands.run('true')).rejects.toBeInstanceOf(SandboxNotFoundError)
  })

  if (!whole) return

  test('files are streams, compressed on request, and have ranges', async () => {
    const bytes = new Uint8Array(3_000_000).map((_, i) => i % 251)
    const body = () => new Blob([bytes]).stream()
    await shared.files.write('big.bin', body())
    await shared.files.write('gzip.bin', body(), { gzip: true })
    for (const name of ['big.bin', 'gzip.bin'])
      expect(Buffer.from(await shared.files.read(name, { format: 'bytes' })).equals(Buffer.from(bytes))).toBe(true)
    const chunks: Uint8Array[] = []
    for await (const chunk of await shared.files.read('big.bin', { format: 'stream' })) chunks.push(chunk)
    expect(Buffer.concat(chunks).equals(Buffer.from(bytes))).toBe(true)
    await shared.files.makeDir('taken')
    await expect(shared.files.write('taken', body())).rejects.toThrow(/directory/)
    await expect(shared.files.write('taken', body(), { gzip: true })).rejects.toThrow(/directory/)
    const range = await envd('/files?path=big.bin', { headers: { range: 'bytes=250-252' } })
    expect([range.status, [...new Uint8Array(await range.arrayBuffer())]]).toEqual([206, [250, 0, 1]])
  })

  test('an upload that is not valid gzip is refused and writes nothing', async () => {
    const whole = gzipSync(Buffer.alloc(100_000, 'text'))
    const form = (bytes: Uint8Array): Buffer =>
      Buffer.concat([Buffer.from('--b\r\ncontent-disposition: form-data; name="file"; filename="broken"\r\n\r\n'), bytes])
    const octets = { 'content-type': 'application/octet-stream' }
    const multipart = { 'content-type': 'multipart/form-data; boundary=b' }
    for (const [type, body] of [
      [octets, whole.subarray(0, -20)],
      [octets, Buffer.from('no gzip at all')],
      [octets, Buffer.concat([whole.subarray(0, 50), Buffer.from('not gzip'), whole.subarray(50)])],
      [multipart, gzipSync(form(whole)).subarray(0, -20)],
      [multipart, form(whole)],
    ] as const) {
      const answer = await envd('/files?path=broken', { method: 'POST', headers: { ...type, 'content-encoding': 'gzip' }, body })
      expect(await answer.json()).toMatchObject({ code: 'invalid_argument' })
      expect(answer.status).toBe(400)
    }
    expect(await shared.files.exists('broken')).toBe(false)
  })

  test('output is streamed, in time and whole', async () => {
    const lines: string[] = []
    const first = Promise.withResolvers<void>()
    const command = await shared.commands.run('echo first; read line; echo "got $line"', {
      background: true,
      stdin: true,
      onStdout: (text) => {
        lines.push(text)
        first.resolve()
      },
    })
    await first.promise
    await shared.commands.sendStdin(command.pid, 'more\n')
    await command.wait()
    expect(lines).toEqual(['first\n', 'got more\n'])
    const { stdout } = await shared.commands.run('seq 1 300000')
    expect(stdout.length).toBe(1_988_895)
    expect(stdout.endsWith('\n299999\n300000\n')).toBe(true)
  })

  test('changes of a directory are told', async () => {
    await shared.files.makeDir('seen')
    const told: string[] = []
    const written = Promise.withResolvers<void>()
    const watch = await shared.files.watchDir('seen', ({ type, name }) => {
      told.push(`${type} ${name}`)
      if (type === 'write') written.resolve()
    })
    await shared.commands.run('echo text > seen/file.txt')
    await written.promise
    expect(told).toContain('create file.txt')
    await watch.stop()
    await expect(shared.files.watchDir('none', () => {})).rejects.toBeInstanceOf(FileNotFoundError)
  })

  test('a watcher that is polled tells changes to its own sandbox, until it is removed', async () => {
    await shared.files.makeDir('polled')
    const call = async (name: string, message: object, headers = {}) => {
      const init = { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(message) }
      const answer = await envd(`/filesystem.Filesystem/${name}`, init)
      return { status: answer.status, ...((await answer.json()) as { watcherId?: string; events?: { name: string; type: string }[] }) }
    }
    const { watcherId = '' } = await call('CreateWatcher', { path: 'polled' })
    await shared.commands.run('echo text > polled/file.txt')
    const told: unknown[] = []
    await expect
      .poll(async () => {
        told.push(...((await call('GetWatcherEvents', { watcherId })).events ?? []))
        return told
      })
      .toContainEqual({ name: 'file.txt', type: 'EVENT_TYPE_WRITE' })
    const other = await Sandbox.create(at())
    const theirs = {
      'e2b-sandbox-id': other.sandboxId,
      'x-access-token': (other as unknown as { envdAccessToken: string }).envdAccessToken,
    }
    for (const name of ['GetWatcherEvents', 'RemoveWatcher'])
      expect(await call(name, { watcherId }, theirs)).toMatchObject({ status: 404, code: 'not_found' })
    await other.kill()
    const more = await Promise.all(Array.from({ length: 20 }, () => call('CreateWatcher', { path: 'polled' })))
    // 8 at most; a watch of before may not have ended yet.
    const refused = more.filter(({ status }) => status === 429).length
    expect(refused).toBeGreaterThanOrEqual(13)
    expect(more.filter(({ status }) => status === 200)).toHaveLength(20 - refused)
    for (const made of [{ watcherId }, ...more])
      if (made.watcherId !== undefined) expect((await call('RemoveWatcher', { watcherId: made.watcherId })).status).toBe(200)
    expect((await call('GetWatcherEvents', { watcherId })).status).toBe(404)
  })

  test('a lot of stdin arrives whole', async () => {
    const command = await shared.commands.run('head -c 600000 | wc -c; cat', { background: true, stdin: true })
    const piece = 'x'.repeat(150_000)
    const sent = (async () => {
      for (let i = 0; i < 4; i++) await shared.commands.sendStdin(command.pid, piece)
      await shared.commands.sendStdin(command.pid, 'rest')
      await shared.commands.closeStdin(command.pid)
    })()
    expect((await command.wait()).stdout).toBe('600000\nrest')
    await sent
  })

  test('stdin that nobody takes is refused once enough of it waits', async () => {
    const command = await shared.commands.run('exec sleep 600', { background: true, stdin: true })
    const sent = Array.from({ length: 30 }, () => shared.commands.sendStdin(command.pid, 'x'.repeat(150_000)))
    await expect(Promise.all(sent)).rejects.toThrow(/reads too little of its stdin/)
    await command.kill()
    await Promise.allSettled([...sent, command.wait()])
  })

  test('a credential that may not run commands writes to none that another one reads', async () => {
    const command = await shared.commands.run('cat', { background: true, stdin: true })
    const body = JSON.stringify({ name: 'reader', principal: 'reader', role: 'operator', capabilities: ['fs_read'] })
    const headers = { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' }
    const made = await fetch(`${stack.brokerUrl}/v1/keys`, { method: 'POST', headers, body })
    const { key: apiKey } = (await made.json()) as { key: string }
    const reader = await Sandbox.connect(shared.sandboxId, { ...at(), apiKey })
    await reader.files.list('.')
    await expect(reader.commands.sendStdin(command.pid, 'theirs')).rejects.toThrow(/exec not granted/)
    await expect(reader.commands.closeStdin(command.pid)).rejects.toThrow(/exec not granted/)
    await shared.commands.sendStdin(command.pid, 'own')
    await command.closeStdin()
    expect((await command.wait()).stdout).toBe('own')
  })

  test('a time limit that is longer than a timer ends no terminal', async () => {
    const start = { process: { cmd: '/bin/sh', args: ['-c', 'exit 3'] }, pty: { size: { cols: 80, rows: 24 } } }
    const message = Buffer.from(`.....${JSON.stringify(start)}`)
    message.writeUIntBE(message.length - 5, 0, 5)
    const headers = { 'content-type': 'application/connect+json', 'connect-timeout-ms': String(2 ** 32) }
    const answer = await envd('/process.Process/Start', { method: 'POST', headers, body: message })
    expect(await answer.text()).toMatch(/"exitCode":3/)
  })

  test('a command is ended after its timeout', async () => {
    await expect(shared.commands.run('echo on; exec sleep 600', { timeoutMs: 1000 })).rejects.toBeInstanceOf(TimeoutError)
    await expect.poll(async () => (await shared.commands.list()).filter(({ args }) => args.at(-1)?.includes('echo on'))).toEqual([])
  })

  test('a sandbox ends after its timeout, and moves it', async () => {
    const short = await Sandbox.create({ ...at(), timeoutMs: 2000 })
    const kept = await Sandbox.create({ ...at(), timeoutMs: 2000, lifecycle: { onTimeout: 'pause' } })
    const long = await Sandbox.create({ ...at(), timeoutMs: 60_000 })
    await long.setTimeout(600_000)
    expect(Number((await Sandbox.getInfo(long.sandboxId, at())).endAt)).toBeGreaterThan(Date.now() + 120_000)
    await expect.poll(() => short.isRunning()).toBe(false)
    await expect.poll(async () => (await Sandbox.getInfo(kept.sandboxId, at())).state).toBe('paused')
    await expect(Sandbox.getInfo(short.sandboxId, at())).rejects.toBeInstanceOf(SandboxNotFoundError)
    expect(await long.isRunning()).toBe(true)
    await Sandbox.connect(kept.sandboxId, { ...at(), timeoutMs: 600_000 })
    expect(await kept.isRunning()).toBe(true)
    for (const sandbox of [kept, long]) await sandbox.kill()
  })

  test('sandboxes are listed in pages', async () => {
    const made = await Promise.all([1, 2, 3].map(() => Sandbox.create({ ...at(), metadata: { purpose: 'pages' } })))
    const listing = Sandbox.list({ ...at(), limit: 2, query: { metadata: { purpose: 'pages' } } })
    const found: string[] = []
    while (listing.hasNext) found.push(...(await listing.nextItems()).map(({ sandboxId }) => sandboxId))
    expect(found.toSorted()).toEqual(made.map(({ sandboxId }) => sandboxId).toSorted())
    for (const sandbox of made) await sandbox.kill()
  })

  test('a sandbox shares the session of a thread with other clients', async () => {
    const session = await connect(stack.brokerUrl, { apiKey: API_KEY }).session('shared-with-e2b')
    await session.files.upload('from-boxoffice.txt', 'here\n')
    const sandbox = await Sandbox.create({ ...at(), metadata: { thread_id: 'shared-with-e2b' } })
    expect(await sandbox.files.read('from-boxoffice.txt')).toBe('here\n')
    expect((await Sandbox.create({ ...at(), metadata: { thread_id: 'shared-with-e2b' } })).sandboxId).toBe(sandbox.sandboxId)
    await sandbox.files.write('from-e2b.txt', 'there\n')
    expect((await session.exec('cat from-e2b.txt')).stdout).toBe('there\n')
    await sandbox.kill()
  })

  test('an access token opens its own sandbox only', async () => {
    const other = await Sandbox.create(at())
    const headers = { 'e2b-sandbox-id': other.sandboxId }
    expect((await envd('/files?path=x', { headers })).status).toBe(401)
    expect((await envd('/files?path=x', { headers: { 'x-access-token': 'none' } })).status).toBe(401)
    await other.kill()
    expect((await envd('/health', { headers })).status).toBe(502)
    await expect(Sandbox.create({ ...at(), apiKey: 'e2b_0000000000000000000000000000000000000000' })).rejects.toBeInstanceOf(
      AuthenticationError,
    )
  })

  test('what is not served is refused by name', async () => {
    const refused = async (call: Promise<unknown>, message: RegExp) => expect(call).rejects.toThrow(message)
    await refused(Sandbox.create({ ...at(), envs: { A: 'b' } }), /environment of a sandbox/)
    await refused(Sandbox.create({ ...at(), network: { denyOut: ['0.0.0.0/0'] } }), /network rules/)
    await refused(Sandbox.create('unknown-template', at()), /no template "unknown-template"/)
    await refused(shared.commands.run('true', { user: 'root' }), /user "root"/)
    await refused(shared.getMetrics(), /metrics/)
    await refused(shared.createSnapshot(), /snapshots/)
    await refused(Sandbox.fork(shared.sandboxId, at()), /fork/)
    await refused(shared.updateNetwork({}), /network rules/)
    await refused(shared.files.write('a.txt', 'a', { metadata: { a: 'b' } }), /metadata of files/)
    const watch = shared.files.watchDir('.', () => {}, { includeEntry: true })
    await refused(watch, /includeEntry/)
  })

  test('the program of the page runs', async () => {
    const [program] = programsOf('e2b.md')
    expect(await runProgram(program ?? '', stack)).toBe('hello from a file\nLinux\n\n')
  })
}
