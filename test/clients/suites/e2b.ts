import { CommandExitError, FileNotFoundError, NotFoundError, Sandbox, SandboxNotFoundError } from 'e2b'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { API_KEY, type ProviderName, type Stack, startStack } from '../../e2e/support/stack.ts'

const enc = new TextEncoder()

/** E2B's published SDK against a running Boxoffice (contract 7.3). */
export const e2bSuite = (provider: ProviderName): void => {
  let stack: Stack
  let shared: Sandbox
  const at = () => {
    const url = `${stack.brokerUrl}/compat/e2b`
    return { apiUrl: url, sandboxUrl: url, apiKey: API_KEY, validateApiKey: false }
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
    // What has ended is replayed.
    expect(await (await commands.connect(cat.pid)).wait()).toMatchObject({ stdout: 'one\ntwo\n' })

    const sleeper = await commands.run('echo up; exec sleep 600', { background: true })
    await sleeper.disconnect()
    const again = await commands.connect(sleeper.pid)
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
}
