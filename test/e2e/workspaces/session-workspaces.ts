import { execFile } from 'node:child_process'
import { chmod, mkdir, mkdtemp, readdir, readFile, realpath, rm, symlink, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { connect } from '@boxoffice/client'
import {
  closeWorkspaces,
  createSandbox,
  createSessionSandbox,
  deleteSessionPath,
  deleteSessionWorkspace,
  getSessionSandbox,
  listSessionFiles,
  pruneSessions,
  readSessionFile,
  type SessionSandboxOptions,
  writeSessionFile,
} from '@boxoffice/client/workspaces'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { API_KEY, type ProviderName, type Stack, startStack } from '../support/stack.ts'
import { eventually } from '../support/traces.ts'
import { sameOverHttp } from './workspaces-over-http.ts'

const PROGRAM = fileURLToPath(new URL('../support/workspace-process.ts', import.meta.url))
const run = promisify(execFile)

/** Another program on the same workspaces; `id` empty: it makes a session. */
export const inAnotherProcess = async (
  root: string,
  code: string,
  { id = '', env }: { id?: string; env: Record<string, string> },
): Promise<{ id: string; stdout: string }> => {
  const { stdout } = await run(process.execPath, [PROGRAM, root, code, id].slice(0, id === '' ? 3 : 4), { env: { ...process.env, ...env } })
  return JSON.parse(stdout) as { id: string; stdout: string }
}

/** A directory that users of sandboxes can get to. */
export const makeRoot = async (): Promise<string> => {
  const parent = await realpath(await mkdtemp(join(tmpdir(), 'bxo-workspaces-')))
  await chmod(parent, 0o755)
  return join(parent, 'workspace')
}

/** Seed 001, as far as it takes sandboxes. */
export const sessionWorkspacesSuite = (provider: ProviderName): void => {
  describe(`${provider}: workspaces of sessions`, () => {
    let stack: Stack
    let root: string
    let options: SessionSandboxOptions & { workspaceRoot: string }
    beforeAll(async () => {
      root = await makeRoot()
      await mkdir(root)
      stack = await startStack({
        provider,
        agentArgs: ['--allowed-host-mount-roots', root],
        config: { profiles: [{ name: 'sleepy', idle_after_seconds: 1, idle_timeout_seconds: 1 }] },
      })
      options = { workspaceRoot: root, endpoint: stack.brokerUrl, apiKey: API_KEY }
    }, 120_000)
    afterAll(async () => {
      await closeWorkspaces()
      await stack?.[Symbol.asyncDispose]()
      await rm(join(root, '..'), { recursive: true, force: true })
    })

    /** What code prints; it must succeed. */
    const shell = async (id: string, code: string): Promise<string> => {
      const result = await (await getSessionSandbox(id, { ...options, runtime: 'shell' })).execute(code)
      expect(result).toMatchObject({ success: true, stderr: '' })
      return result.stdout
    }
    const newSession = async (more: SessionSandboxOptions = {}) => await createSessionSandbox({ ...options, ...more })

    describe('results', () => {
      test('[1-28, 1-29, 1-61] name the session and its directory, as do the events around them', async () => {
        const told: Record<string, unknown>[] = []
        const take = (fields: Record<string, unknown>) => void told.push(fields)
        const [id, sandbox] = await newSession({ logger: { info: take, warn: take } })
        const result = await sandbox.execute('print(6 * 7)')
        expect(result).toMatchObject({ success: true, stdout: '42\n', exit_code: 0, timed_out: false, workspace_path: join(root, id) })
        expect(result.metadata).toMatchObject({ session_id: id, runtime: 'python' })
        expect(told).toMatchObject([
          { event: 'session.created', session_id: id },
          { event: 'execution.start', session_id: id, runtime: 'python' },
          { event: 'execution.complete', session_id: id, success: true, exit_code: 0 },
        ])
        const failed = await sandbox.execute('raise SystemExit(3)')
        expect(failed).toMatchObject({ success: false, exit_code: 3 })
      })

      test('[1-30] tell which files were made and changed, when asked', async () => {
        const [id, sandbox] = await newSession({ trackFiles: true })
        await writeSessionFile(id, 'old', 'x', options)
        await writeSessionFile(id, 'same', 'x', options)
        const result = await sandbox.execute("import os; os.makedirs('d'); open('d/new', 'w').write('x'); open('old', 'a').write('y')")
        expect(result).toMatchObject({ success: true, files_created: ['d/new'], files_modified: ['old'] })
        const [, untracked] = await newSession()
        expect(await untracked.execute('1')).toMatchObject({ files_created: null, files_modified: null })
      })

      test('[1-31] hold to the policy that was given', async () => {
        const [, sandbox] = await newSession({ policy: { timeoutSeconds: 1, maxOutputBytes: 10, env: { WORD: 'passed through' } } })
        expect(await sandbox.execute('import time; time.sleep(60)')).toMatchObject({ success: false, timed_out: true, exit_code: 124 })
        const printed = await sandbox.execute("import os; print(os.environ['WORD'])")
        expect(printed.metadata.stdout_truncated).toBe(true)
        expect(printed.stdout.length).toBeLessThanOrEqual(10)
      })

      test('[1-11] of a plain sandbox name no session, and it has the directory that it was given', async () => {
        const workspace = join(root, 'plain')
        const sandbox = await createSandbox({ endpoint: stack.brokerUrl, apiKey: API_KEY, workspace, runtime: 'shell' })
        const result = await sandbox.execute('echo here > file')
        expect(result).toMatchObject({ success: true, workspace_path: workspace })
        expect(result.metadata).not.toHaveProperty('session_id')
        expect(await readFile(join(workspace, 'file'), 'utf8')).toBe('here\n')
      })

      test('code that is longer than an argument may be runs all the same', async () => {
        const [, sandbox] = await newSession()
        expect(await sandbox.execute(`x = ${JSON.stringify('a'.repeat(300_000))}\nprint(len(x))`)).toMatchObject({ stdout: '300000\n' })
      })
    })

    describe('isolation', () => {
      test('[1-22, 1-71] two sessions do not see each other', async () => {
        const [[a], [b]] = await Promise.all([newSession(), newSession()])
        await shell(a, 'echo secret > only-in-a')
        expect(await shell(b, 'ls -A')).toBe('')
        expect(await listSessionFiles(b, options)).toEqual([])
        await expect(readSessionFile(b, 'only-in-a', options)).rejects.toMatchObject({ code: 'FILE_NOT_FOUND' })
      })

      test('[1-23, 1-71] a guest sees neither the root of the workspaces nor its siblings', async () => {
        const [[a, sandbox], [b]] = await Promise.all([newSession({ runtime: 'shell' }), newSession()])
        await writeSessionFile(b, 'f', 'secret', options)
        for (const path of [`../${b}/f`, `/app/../${b}/f`, `/workspace/../${b}/f`, `${root}/${b}/f`]) {
          const result = await sandbox.execute(`cat ${path}`)
          expect([result.success, result.stdout]).toEqual([false, ''])
        }
        for (const id of [a, b]) expect((await sandbox.execute('ls .. /app/..')).stdout).not.toContain(id)
      })

      test('[1-21, 1-71] /app and /workspace are the same directory', async () => {
        const [id] = await newSession()
        expect(await shell(id, 'echo x > /app/a; cat /workspace/a; echo y > /workspace/b; cat /app/b; pwd')).toBe('x\ny\n/workspace\n')
        expect(await listSessionFiles(id, options)).toEqual(['a', 'b'])
      })

      test('[1-55, 1-72] links that a guest makes do not lead the host out', async () => {
        const [id] = await newSession()
        await writeFile(join(root, '..', 'canary'), 'canary')
        await shell(
          id,
          `ln -s ${join(root, '..', 'canary')} file; ln -s ${join(root, '..')} folder; ln -s ../.. up; ln -s /workspace/real inside; echo real > real`,
        )
        for (const path of ['file', 'folder/canary', 'up/canary']) {
          await expect(readSessionFile(id, path, options)).rejects.toMatchObject({ code: 'INVALID_PATH' })
          await expect(writeSessionFile(id, path, 'evil', options)).rejects.toMatchObject({ code: 'INVALID_PATH' })
        }
        expect((await readSessionFile(id, 'inside', options)).toString()).toBe('real\n')
        await deleteSessionWorkspace(id, options)
        expect(await readFile(join(root, '..', 'canary'), 'utf8')).toBe('canary')
      })
    })

    describe('persistence', () => {
      test('[1-20, 1-71] each execution finds the files of those before', async () => {
        const [id, sandbox] = await newSession()
        await sandbox.execute("open('counter', 'w').write('1')")
        for (let turn = 0; turn < 3; turn++)
          await sandbox.execute("n = int(open('counter').read()); open('counter', 'w').write(str(n + 1))")
        expect((await readSessionFile(id, 'counter', options)).toString()).toBe('4')
        expect(await shell(id, 'cat counter')).toBe('4')
      })

      test('[1-08, 1-71] a session that another program has made goes on here, also when the broker came back in between', async () => {
        const env = { BOXOFFICE_URL: stack.brokerUrl, BOXOFFICE_API_KEY: API_KEY }
        const made = await inAnotherProcess(root, 'echo one > notes', { env })
        expect(await shell(made.id, 'echo two >> notes; cat notes')).toBe('one\ntwo\n')
        const mine = await getSessionSandbox(made.id, { ...options, runtime: 'shell' })
        await mine.execute('true')
        await stack.broker().kill('SIGKILL')
        await stack.startBroker()
        expect((await mine.execute('cat notes')).stdout).toBe('one\ntwo\n')
        expect((await inAnotherProcess(root, 'echo three >> notes; cat notes', { id: made.id, env })).stdout).toBe('one\ntwo\nthree\n')
        expect(await shell(made.id, 'cat notes')).toBe('one\ntwo\nthree\n')
      })

      test('[C-62] the files of a suspended session are read and written without waking it, and it wakes with them', async () => {
        const [id, sandbox] = await newSession({ runtime: 'shell', policy: { profile: 'sleepy' } })
        const { metadata } = await sandbox.execute('echo one > file')
        const client = connect(stack.brokerUrl, { apiKey: API_KEY })
        const state = async () => (await client.sessions.list()).find(({ sandbox_id }) => sandbox_id === metadata.sandbox_id)?.state
        await eventually('it is suspended', async () => (await state()) === 'suspended')
        expect((await readSessionFile(id, 'file', options)).toString()).toBe('one\n')
        await writeSessionFile(id, 'file', 'two', options)
        expect(await listSessionFiles(id, options)).toEqual(['file'])
        expect(await state()).toBe('suspended')
        const woken = await sandbox.execute('cat file')
        expect([woken.stdout, woken.metadata.sandbox_id]).toEqual(['two', metadata.sandbox_id])
      })

      test('[1-08] a sandbox that was released leaves the files, and the next execution has another one', async () => {
        const [id, sandbox] = await newSession({ runtime: 'shell' })
        const before = await sandbox.execute('echo kept > file')
        const client = connect(stack.brokerUrl, { apiKey: API_KEY })
        const found = (await client.sessions.list()).find(({ sandbox_id }) => sandbox_id === before.metadata.sandbox_id)
        await client.sessions.release(found?.id ?? '')
        const after = await sandbox.execute('cat file')
        expect(after.stdout).toBe('kept\n')
        expect(after.metadata.sandbox_id).not.toBe(before.metadata.sandbox_id)
        expect((await readSessionFile(id, 'file', options)).toString()).toBe('kept\n')
      })
    })

    describe('round trips between host and guest', () => {
      test('[1-06, 1-71] of text, both ways', async () => {
        const [id, sandbox] = await newSession()
        await writeSessionFile(id, 'in.txt', 'Hello 世界', options)
        const result = await sandbox.execute(
          "text = open('/app/in.txt', encoding='utf-8').read(); open('/app/out.txt', 'w', encoding='utf-8').write(text[::-1])",
        )
        expect(result).toMatchObject({ success: true, stderr: '' })
        expect((await readSessionFile(id, 'out.txt', options)).toString()).toBe('界世 olleH')
      })

      test('[1-45, 1-71] of binary data, both ways', async () => {
        const [id, sandbox] = await newSession()
        const bytes = Uint8Array.from({ length: 256 }, (_, byte) => byte)
        await writeSessionFile(id, 'in.bin', bytes, options)
        await sandbox.execute("open('out.bin', 'wb').write(bytes(reversed(open('in.bin', 'rb').read())))")
        expect([...(await readSessionFile(id, 'out.bin', options))]).toEqual([...bytes].reverse())
      })

      test('[1-41, 1-71] of nested directories, which each side can go on writing', async () => {
        const [id] = await newSession()
        await writeSessionFile(id, 'a/b/host.txt', 'host', options)
        await shell(
          id,
          'cat a/b/host.txt; echo more >> a/b/host.txt; mkdir -p a/b/c; echo guest > a/b/c/guest.txt; echo x > a/b/x; rm a/b/x',
        )
        await writeSessionFile(id, 'a/b/c/host.txt', 'again', options)
        await deleteSessionPath(id, 'a/b/c/guest.txt', options)
        expect(await listSessionFiles(id, options)).toEqual(['a/b/c/host.txt', 'a/b/host.txt'])
        expect((await readSessionFile(id, 'a/b/host.txt', options)).toString()).toBe('hostmore\n')
      })

      test('[1-20, 1-71] over many turns', async () => {
        const [id, sandbox] = await newSession()
        await writeSessionFile(id, 'numbers.json', '[1]', options)
        for (let turn = 2; turn <= 5; turn++) {
          await sandbox.execute(`import json; n = json.load(open('numbers.json')); json.dump(n + [${turn}], open('numbers.json', 'w'))`)
          const numbers = JSON.parse((await readSessionFile(id, 'numbers.json', options)).toString()) as number[]
          await writeSessionFile(id, 'numbers.json', JSON.stringify(numbers.map((n) => n * 10)), options)
        }
        expect(JSON.parse((await readSessionFile(id, 'numbers.json', options)).toString())).toEqual([10_000, 20_000, 3000, 400, 50])
      })
    })

    describe('cleanup', () => {
      test('[1-24, 1-27, 1-71] deleting takes what the guest made, ends its sandbox, and a new one begins empty', async () => {
        const [id, sandbox] = await newSession({ runtime: 'shell' })
        const before = await sandbox.execute('mkdir -p a/b; echo x > a/b/c; chmod 000 a/b; ln -s /etc/passwd l; mkfifo f')
        await deleteSessionWorkspace(id, options)
        expect(await readdir(root)).not.toContain(id)
        const live = await connect(stack.brokerUrl, { apiKey: API_KEY }).sessions.list()
        expect(live.map(({ sandbox_id }) => sandbox_id)).not.toContain(before.metadata.sandbox_id)
        // The same object, a new one, and another program that never heard of it.
        expect((await sandbox.execute('ls -A; echo new > file')).stdout).toBe('')
        expect(await shell(id, 'ls -A')).toBe('file\n')
        expect(await listSessionFiles(id, options)).toEqual(['file'])
      })

      test('[1-27] a directory that was deleted behind its sandbox is a new workspace', async () => {
        const [id, sandbox] = await newSession({ runtime: 'shell' })
        await sandbox.execute('echo x > old')
        await rm(join(root, id), { recursive: true })
        expect((await sandbox.execute('ls -A; echo y > new')).stdout).toBe('')
        expect(await listSessionFiles(id, options)).toEqual(['new'])
      })

      test('[1-73] prune leaves alone what is in use', async () => {
        const [[used, sandbox], [unused]] = await Promise.all([newSession({ runtime: 'shell' }), newSession()])
        await sandbox.execute('echo x > file')
        for (const id of [used, unused]) for (const path of ['', ...(id === used ? ['file'] : [])]) await utimes(join(root, id, path), 1, 1)
        expect(await pruneSessions({ ...options, dryRun: true })).toMatchObject({ deleted_sessions: [unused], skipped_sessions: [used] })
        expect(await pruneSessions(options)).toMatchObject({ deleted_sessions: [unused], skipped_sessions: [used], errors: {} })
        expect((await sandbox.execute('cat file')).stdout).toBe('x\n')
      })
    })

    sameOverHttp(() => ({ stack, options }))

    test('[2-113] directories elsewhere are refused, and so are all for keys that are not an operator’s', async () => {
      const outside = await makeRoot()
      const elsewhere = await getSessionSandbox(crypto.randomUUID(), { ...options, workspaceRoot: outside })
      await expect(elsewhere.execute('1')).rejects.toMatchObject({
        status: 400,
        message: expect.stringContaining('host_path is outside allowed_mount_roots'),
      })
      await symlink(join(outside, '..'), join(root, 'link'))
      const through = await createSandbox({ endpoint: stack.brokerUrl, apiKey: API_KEY, workspace: join(root, 'link') })
      await expect(through.execute('1')).rejects.toMatchObject({ status: 400 })
      const { key } = await connect(stack.brokerUrl, { apiKey: API_KEY }).keys.create({
        name: 'somebody',
        principal: 'somebody',
        role: 'user',
      })
      const [, sandbox] = await newSession({ apiKey: key })
      await expect(sandbox.execute('1')).rejects.toMatchObject({ status: 403 })
      await rm(join(outside, '..'), { recursive: true })
    })
  })
}
