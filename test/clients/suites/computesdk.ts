import { connect } from '@boxoffice/client'
import { boxoffice } from '@boxoffice/client/computesdk'
import { compute, type SandboxInterface } from 'computesdk'
import { beforeAll, describe, expect, test } from 'vitest'
import { API_KEY, type Stack } from '../../e2e/support/stack.ts'
import { programsOf, runProgram } from '../support/page-programs.ts'

/** The published `computesdk` with our provider; with the program of the page where `page` says so. */
export const computesdkSuite = (stack: () => Stack, { page = false } = {}): void => {
  describe('ComputeSDK', () => {
    let sdk: ReturnType<typeof compute>
    let sandbox: SandboxInterface
    beforeAll(async () => {
      sdk = compute({ provider: boxoffice({ url: stack().brokerUrl, apiKey: API_KEY }) })
      sandbox = await sdk.sandbox.create({ envs: { GREETING: 'hello' }, metadata: { team: 'blue', size: 3 } })
    })

    test('a command gives output, exit code and duration', async () => {
      const result = await sandbox.runCommand('echo "$GREETING $WHO"; echo bad >&2; exit 42', { env: { WHO: 'world' } })
      expect(result).toEqual({ stdout: 'hello world\n', stderr: 'bad\n', exitCode: 42, durationMs: expect.any(Number) })
    })

    test('files are written, read, listed and removed', async () => {
      const { filesystem } = sandbox
      await filesystem.mkdir('docs/sub')
      await filesystem.writeFile('docs/ä b.txt', 'ünï')
      expect(await filesystem.readFile('/workspace/docs/ä b.txt')).toBe('ünï')
      const entries = await filesystem.readdir('docs')
      expect(entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))).toEqual([
        expect.objectContaining({ name: 'sub', type: 'directory' }),
        expect.objectContaining({ name: 'ä b.txt', type: 'file', size: 5, modified: expect.any(Date) }),
      ])
      expect(await filesystem.exists('docs/sub')).toBe(true)
      await filesystem.remove('docs')
      expect(await filesystem.exists('docs')).toBe(false)
      await expect(filesystem.readFile('docs/none')).rejects.toMatchObject({ code: 'FILE_NOT_FOUND' })
    })

    test('files outside of the workspace are those that commands see', async () => {
      await sandbox.filesystem.writeFile('/tmp/outside.txt', 'out')
      expect(await sandbox.runCommand('cat /tmp/outside.txt')).toMatchObject({ stdout: 'out' })
    })

    test('a sandbox is found again by its id, and by no other', async () => {
      const again = await sdk.sandbox.getById(sandbox.sandboxId)
      await sandbox.filesystem.writeFile('found.txt', 'yes')
      expect(await again?.filesystem.readFile('found.txt')).toBe('yes')
      expect(await sdk.sandbox.getById('computesdk/nobody')).toBeNull()
    })

    test('getInfo tells the state and the labels', async () => {
      expect(await sandbox.getInfo()).toEqual({
        id: sandbox.sandboxId,
        provider: 'boxoffice',
        status: 'running',
        createdAt: expect.any(Date),
        timeout: 0,
        metadata: { team: 'blue', size: '3', surface: 'computesdk' },
      })
    })

    test('destroy ends the sandbox, and a second time is fine', async () => {
      const other = await sdk.sandbox.create()
      await other.destroy()
      await other.destroy()
      await sdk.sandbox.destroy(other.sandboxId)
      expect(await sdk.sandbox.getById(other.sandboxId)).toBeNull()
      await expect(other.getInfo()).rejects.toMatchObject({ code: 'BINDING_NOT_FOUND' })
    })

    test('output is streamed to callbacks', async () => {
      const pieces: string[] = []
      const options = { onStdout: (data: string) => pieces.push(`out ${data}`), onStderr: (data: string) => pieces.push(`err ${data}`) }
      const result = await sandbox.runCommand('echo one; echo two >&2; exit 3', options)
      expect(result).toMatchObject({ stdout: 'one\n', stderr: 'two\n', exitCode: 3 })
      expect(pieces.toSorted()).toEqual(['err two\n', 'out one\n'])
    })

    test('a command is ended after its timeout', async () => {
      expect(await sandbox.runCommand('sleep 600', { timeout: 200 })).toMatchObject({ exitCode: 124 })
    })

    test('a command in the background goes on', async () => {
      const started = await sandbox.runCommand('until test -e go; do sleep 0.05; done; echo done > ended', { background: true })
      expect(started).toMatchObject({ stdout: '', stderr: '', exitCode: 0 })
      await sandbox.filesystem.writeFile('go', '')
      await expect.poll(() => sandbox.filesystem.exists('ended')).toBe(true)
    })

    test('a command starts in its directory', async () => {
      const own = await sdk.sandbox.create({ directory: '/tmp' })
      expect(await own.runCommand('pwd')).toMatchObject({ stdout: '/tmp\n' })
      expect(await own.runCommand('pwd', { cwd: '/' })).toMatchObject({ stdout: '/\n' })
      await own.destroy()
    })

    test('a sandbox has the name that is asked for, once', async () => {
      const named = await sdk.sandbox.create({ namespace: 'team', name: 'builder' })
      expect(named.sandboxId).toBe('computesdk/team/builder')
      await expect(sdk.sandbox.create({ namespace: 'team', name: 'builder' })).rejects.toThrow(/has a live session/)
      await named.destroy()
    })

    test('a sandbox of a thread is the one of every other client', async () => {
      const session = await connect(stack().brokerUrl, { apiKey: API_KEY }).session('a-thread')
      const shared = await sdk.sandbox.create({ threadId: 'a-thread' })
      await shared.runCommand('echo shared > file')
      expect(await session.files.text('file')).toBe('shared\n')
    })

    test('list has what was created, and what another client made not', async () => {
      await connect(stack().brokerUrl, { apiKey: API_KEY }).session('another-client')
      const listed = await sdk.sandbox.list()
      expect(listed.map(({ sandboxId }) => sandboxId)).toContain(sandbox.sandboxId)
      expect(listed.map(({ sandboxId }) => sandboxId)).not.toContain('another-client')
      const found = listed.find(({ sandboxId }) => sandboxId === sandbox.sandboxId)
      expect(await found?.runCommand('echo listed')).toMatchObject({ stdout: 'listed\n' })
    })

    test('an aborted creation leaves no sandbox', async () => {
      const before = (await sdk.sandbox.list()).length
      const signal = AbortSignal.abort()
      await expect(sdk.sandbox.create({ signal })).rejects.toMatchObject({ name: 'AbortError' })
      expect(await sdk.sandbox.list()).toHaveLength(before)
    })

    test('a link in a directory counts as what it leads to', async () => {
      await sandbox.runCommand('mkdir -p links/real && ln -s real links/to-directory && ln -s nowhere links/dangling')
      const entries = await sandbox.filesystem.readdir('links')
      expect(Object.fromEntries(entries.map(({ name, type }) => [name, type]))).toEqual({
        real: 'directory',
        'to-directory': 'directory',
        dangling: 'file',
      })
    })

    test('getUrl is refused by name', async () => {
      await expect(sandbox.getUrl({ port: 3000 })).rejects.toMatchObject({ code: 'UNSUPPORTED', status: 501, message: /URLs of ports/ })
    })

    test('options that a profile decides are refused by name', async () => {
      await expect(sdk.sandbox.create({ image: 'node:24' })).rejects.toThrow(/does not support the option image/)
      await expect(sdk.sandbox.create({ snapshotId: 's' })).rejects.toThrow(/does not support snapshots/)
      await expect(sdk.sandbox.create({ templatId: 'default' })).rejects.toThrow(/did you mean templateId/)
    })

    test('snapshots are refused by name', async () => {
      await expect(sdk.snapshot.create(sandbox.sandboxId)).rejects.toThrow(/does not support snapshots/)
      await expect(sdk.snapshot.list()).rejects.toMatchObject({ code: 'UNSUPPORTED', status: 501 })
    })

    if (!page) return

    test('the program of the page runs', async () => {
      const [program = ''] = programsOf('computesdk.md')
      expect(await runProgram(program, stack())).toBe('0 Hello, ComputeSDK\n\n')
    })
  })
}
