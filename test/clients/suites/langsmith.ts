import { once } from 'node:events'
import { join } from 'node:path'
import { LangSmithSandbox } from 'deepagents'
import * as line9 from 'langsmith/sandbox'
import * as line12 from 'langsmith-0.12/sandbox'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { brokerApi, request } from '../../e2e/support/api.ts'
import { ROOT } from '../../e2e/support/program.ts'
import { API_KEY, type ProviderName, type Stack, startStack } from '../../e2e/support/stack.ts'
import { programsOf, runProgram } from '../support/page-programs.ts'
import { PYTHON, runToEnd } from '../support/pytest.ts'

const PYTHON_SUITE = join(ROOT, 'test/clients/suites/langsmith_sdk.py')

const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes)

/** One of the published lines; 0.12 has more methods than 0.9, and those of both have one shape. */
const LINES = [
  { line: '0.9', api: line9 as unknown as typeof line12, version: 'v2' },
  { line: '0.12', api: line12, version: 'api/v2' },
] as const

/** LangSmith's published clients against a running Boxoffice (contract 7.2). */
export const langsmithSuite = (provider: ProviderName, { whole }: { whole: boolean }): void => {
  let stack: Stack
  beforeAll(async () => {
    stack = await startStack({ provider })
  })
  afterAll(() => stack?.[Symbol.asyncDispose]())

  describe.each(LINES)(`${provider}: langsmith $line`, ({ line, api, version }) => {
    const clientOf = (apiKey: string = API_KEY) =>
      new api.SandboxClient({ apiEndpoint: `${stack.brokerUrl}/compat/langsmith/${version}/sandboxes`, apiKey, maxRetries: 0 })
    let client: ReturnType<typeof clientOf>
    let box: line12.Sandbox
    beforeAll(async () => {
      client = clientOf()
      box = await client.createSandbox({ name: `shared-${line}`, timeout: 60 })
    })

    test('a command gives its output and exit code', async () => {
      expect(await box.run('echo out; echo err >&2; pwd; exit 42', { env: { A: 'b' } })).toMatchObject({
        stdout: 'out\n/workspace\n',
        stderr: 'err\n',
        exit_code: 42,
      })
      expect(await box.run('echo "$A $PWD"', { env: { A: 'grüße' }, cwd: '/tmp' })).toMatchObject({ stdout: 'grüße /tmp\n', exit_code: 0 })
    })

    test('files are written and read, also outside the workspace', async () => {
      const bytes = Uint8Array.from({ length: 256 }, (_, i) => i)
      await box.write('/workspace/deep/a ü.bin', bytes)
      await box.write('/tmp/empty', '')
      await box.write('relative.txt', 'here')
      expect([...(await box.read('/workspace/deep/a ü.bin'))]).toEqual([...bytes])
      expect((await box.read('/tmp/empty')).length).toBe(0)
      expect((await box.run('cat relative.txt')).stdout).toBe('here')
      await expect(box.read('/workspace/nothing')).rejects.toBeInstanceOf(api.LangSmithResourceNotFoundError)
      await expect(box.read('/workspace/deep')).rejects.toThrow(/is a directory/)
    })

    test('a command in the background is streamed, has stdin, and is killed', async () => {
      const cat = await box.run('cat', { wait: false, closeInput: false })
      cat.sendInput('ünder\n')
      const chunks = cat[Symbol.asyncIterator]()
      expect((await chunks.next()).value).toMatchObject({ stream: 'stdout', data: 'ünder\n', offset: 0 })
      cat.kill()
      expect((await cat.result).exit_code).toBe(137)
    })

    test('a command is reconnected to at an offset, and its id runs it once', async () => {
      const id = `once-${line.replace('.', '-')}`
      const command = 'echo first; until [ -e go ]; do sleep 0.05; done; echo then | tee -a ran'
      const handle = await box.run(command, { wait: false, commandId: id })
      expect(handle.commandId).toBe(id)
      expect(handle.pid).toBeGreaterThan(0)
      for await (const { data } of handle) {
        expect(data).toBe('first\n')
        break
      }
      const again = await box.reconnect(id, { stdoutOffset: 6 })
      await box.write('go', '')
      const rest = []
      for await (const chunk of again) rest.push(chunk)
      expect(rest).toEqual([{ stream: 'stdout', data: 'then\n', offset: 6 }])
      expect(await box.run(command, { commandId: id })).toMatchObject({ stdout: 'first\nthen\n', exit_code: 0 })
      expect(text(await box.read('/workspace/ran'))).toBe('then\n')
      await expect((await box.reconnect('nobody-knows-it')).result).rejects.toMatchObject({ errorType: 'CommandNotFound' })
    })

    test('a box is listed, has a status, is stopped, started and deleted', async () => {
      const name = `life-${line}`
      const made = await client.createSandbox({ name, timeout: 60, idleTtlSeconds: 600 })
      expect(made).toMatchObject({ name, status: 'ready', idle_ttl_seconds: 600 })
      expect(made.id).toMatch(/^[0-9a-f-]{36}$/)
      await expect(client.createSandbox({ name })).rejects.toThrow()
      await made.write('/workspace/kept', 'kept')
      const running = await made.run('sleep 600', { wait: false })
      await made.stop()
      expect((await running.result).exit_code).toBeGreaterThan(128)
      expect((await client.getSandboxStatus(name)).status).toBe('stopped')
      await made.start()
      expect(made.status).toBe('ready')
      expect(text(await made.read('/workspace/kept'))).toBe('kept')
      await made.stop()
      expect((await made.run('cat kept')).stdout).toBe('kept')
      expect((await client.listSandboxes()).map((one) => one.name)).toContain(name)
      await made.delete()
      await expect(client.getSandbox(name)).rejects.toBeInstanceOf(api.LangSmithResourceNotFoundError)
      await expect(made.run('true')).rejects.toThrow()
    })

    if (!whole) return

    test('a command that runs out of time is told so', async () => {
      await expect(box.run('echo begun; sleep 600', { timeout: 1 })).rejects.toBeInstanceOf(api.LangSmithCommandTimeoutError)
    })

    test('callbacks get each stream, and no character is split', async () => {
      const [out, err]: [string[], string[]] = [[], []]
      const result = await box.run(`i=0; while [ $i -lt 20000 ]; do printf 'aü漢😀'; i=$((i+1)); done; echo e >&2`, {
        onStdout: (data: string) => out.push(data),
        onStderr: (data: string) => err.push(data),
      })
      expect(result.stdout).toBe('aü漢😀'.repeat(20_000))
      expect(out.join('')).toBe(result.stdout)
      expect(err.join('')).toBe('e\n')
    })

    test('a command without its client ends with it, after its idle timeout, at its time limit, or not', async () => {
      const alive = async (mark: string) => (await box.run(`pgrep -f '[s]leep ${mark}' || true`)).stdout !== ''
      const ends = [
        { mark: '1001', options: { killOnDisconnect: true }, lives: false },
        { mark: '1002', options: { idleTimeout: 0 }, lives: false },
        { mark: '1003', options: { idleTimeout: 600 }, lives: true },
        { mark: '1004', options: { idleTimeout: 600, pty: true, timeout: 2 }, lives: false },
      ]
      for (const { mark, options } of ends) {
        const handle = await box.run(`sleep ${mark}`, { wait: false, ...options })
        await closeSocketOf(handle)
      }
      for (const { mark, lives } of ends) await expect.poll(() => alive(mark), { timeout: 60_000 }).toBe(lives)
      await box.run(`pkill -f '[s]leep 1003'`)
    })

    test('execute over HTTP gives the same', async () => {
      const reply = await request(`${box.dataplane_url}/execute`, {
        method: 'POST',
        headers: { 'x-api-key': API_KEY, 'content-type': 'application/json' },
        body: JSON.stringify({ command: 'echo out; exit 3', timeout: 20, shell: '/bin/bash' }),
      })
      expect(reply).toMatchObject({ status: 200, body: { stdout: 'out\n', stderr: '', exit_code: 3 } })
    })

    test('a socket that does not begin with a command, or begins with two, is refused', async () => {
      const begin = { type: 'execute', command: 'cat -u -u -u', kill_on_disconnect: true, ttl_seconds: -1 }
      const input = { type: 'input', data: 'early\n' }
      expect(await answersTo(box, [input])).toEqual([
        { type: 'error', error_type: 'CommandError', error: expect.stringMatching(/begins with/) },
      ])
      expect((await answersTo(box, [begin, begin])).at(-1)).toMatchObject({ type: 'error', error: expect.stringMatching(/one command/) })
      const lines = Array.from({ length: 100 }, (_, i) => `${i}\n`)
      const answers = await answersTo(box, [begin, ...lines.map((data) => ({ ...input, data })), { type: 'close_stdin' }])
      expect(answers[0]).toMatchObject({ type: 'started', ttl_seconds: 600 })
      expect(answers.map(({ data }) => data ?? '').join('')).toBe(lines.join(''))
      expect(answers.at(-1)).toEqual({ type: 'exit', exit_code: 0 })
      await expect.poll(async () => (await box.run(`pgrep -f '[c]at -u -u -u' || true`)).stdout, { timeout: 60_000 }).toBe('')
    })

    test('what is not served is refused by name', async () => {
      await expect(client.createSandbox({ name: 'mounted', mountConfig: { mounts: [] } as never })).rejects.toThrow(/mount_config/)
      await expect(box.captureSnapshot('shot')).rejects.toThrow(/snapshots are not supported/)
      await expect(client.updateSandbox(box.name, { newName: 'other' })).rejects.toThrow(/name is not supported/)
      await expect(box.generateDownloadURL('/workspace/ran')).rejects.toThrow(/download URLs are not supported/)
      await expect(client.createSandbox({ snapshotName: 'nothing' })).rejects.toThrow(/no snapshot "nothing"/)
    })

    test('a wrong key and a strange box are refused', async () => {
      const stranger = clientOf('not-a-key-0123456789abcdefghijklmnopqrst')
      await expect(stranger.listSandboxes()).rejects.toBeInstanceOf(api.LangSmithSandboxAuthenticationError)
      await expect(stranger.getSandbox(box.name)).rejects.toThrow()
      await expect(client.getSandbox('no%2f..%2fbox')).rejects.toBeInstanceOf(api.LangSmithResourceNotFoundError)
      const session = await brokerApi(stack.brokerUrl).ensure(`langsmith/shared-${line}`)
      expect(session.thread_id).toBe(`langsmith/shared-${line}`)
    })
  })

  describe(`${provider}: langsmith 0.12 alone`, () => {
    let box: line12.Sandbox
    beforeAll(async () => {
      const client = new line12.SandboxClient({ apiEndpoint: `${stack.brokerUrl}/compat/langsmith/api/v2/sandboxes`, apiKey: API_KEY })
      box = await client.createSandbox({ name: 'files', timeout: 60 })
      await box.run('mkdir -p src/deep; printf "one\\ntwo a+b\\n" > src/a.py; echo "x a+b" > src/deep/b.py; echo none > src/c.txt')
    })

    test('a command at a terminal has input and output, a time limit, and is reconnected to', async () => {
      const ask = 'test -t 0 && test -t 1 || exit 9; stty -echo; echo ready; read line; echo "got $line"; read more; exit 5'
      const first = await box.run(ask, { wait: false, pty: true })
      await shownBy(first, /ready/)
      first.sendInput('one\n')
      expect(await shownBy(first, /got one\r\n/)).not.toContain('ready')
      await closeSocketOf(first)
      const again = await box.reconnect(first.commandId ?? '', { pty: true })
      expect(await shownBy(again, /got one\r\n/)).toBe('ready\r\ngot one\r\n')
      again.sendInput('two\n')
      expect(await again.result).toMatchObject({ stderr: '', exit_code: 5 })
      await expect(box.run('echo begun; sleep 600', { pty: true, timeout: 1 })).rejects.toBeInstanceOf(line12.LangSmithCommandTimeoutError)
    })

    test('a part of a file is read, and a file that has not changed is not sent', async () => {
      await box.write('/workspace/digits', '0123456789')
      const stat = await box.stat('/workspace/digits')
      expect(stat).toMatchObject({ size_bytes: 10 })
      const part = await box.readRange('/workspace/digits', { start: 2, end: 4, ifRange: stat.etag })
      expect(text(part.content)).toBe('234')
      expect(text((await box.readRange('/workspace/digits', { suffixBytes: 2 })).content)).toBe('89')
      await expect(box.readRange('/workspace/digits', { start: 50, end: 60 })).rejects.toThrow(/bytes \*\/10/)
      const same = await box.readRange('/workspace/digits', { start: 0, ifNoneMatch: stat.etag })
      expect(same.content.length).toBe(0)
      await expect(box.stat('/workspace/none')).rejects.toBeInstanceOf(line12.LangSmithResourceNotFoundError)
    })

    test('glob and ls find entries', async () => {
      const paths = async (found: Promise<{ matches: { path: string }[] }>) => (await found).matches.map(({ path }) => path)
      expect(await paths(box.glob('**/*.py', '/workspace/src'))).toEqual(['/workspace/src/a.py', '/workspace/src/deep/b.py'])
      expect(await box.ls('/workspace/src')).toMatchObject({
        matches: [
          { path: '/workspace/src/a.py', is_dir: false, size_bytes: 12 },
          { path: '/workspace/src/c.txt', is_dir: false },
          { path: '/workspace/src/deep', is_dir: true },
        ],
        truncated: false,
      })
      expect(await box.glob('**/*', '/workspace/src', { limit: 2 })).toMatchObject({ truncated: true })
      await expect(box.ls('/workspace/none')).rejects.toBeInstanceOf(line12.LangSmithResourceNotFoundError)
    })

    test('grep finds lines with a text', async () => {
      expect(await box.grep('a+b', '/workspace/src')).toEqual({
        matches: expect.arrayContaining([
          { path: '/workspace/src/a.py', line: 2, text: 'two a+b' },
          { path: '/workspace/src/deep/b.py', line: 1, text: 'x a+b' },
        ]),
        truncated: false,
      })
      expect((await box.grep('a+b', '/workspace', { glob: 'a.*' })).matches).toHaveLength(1)
      const below = async (glob: string) => (await box.grep('a+b', '/workspace/src/', { glob })).matches.map(({ path }) => path).sort()
      expect(await below('**/*.{py,txt}')).toEqual(['/workspace/src/a.py', '/workspace/src/deep/b.py'])
      expect(await below('*/[!a].py')).toEqual(['/workspace/src/deep/b.py'])
      expect((await box.grep('a+b', '/workspace', { limit: 1 })).truncated).toBe(true)
      expect((await box.grep('nowhere', '/workspace')).matches).toEqual([])
      await box.write(`/workspace/lines/${'a'.repeat(80)}c`, `with an end\r\n${':1:'.repeat(20_000)}\r\n`)
      expect((await box.grep('with', '/workspace/lines')).matches).toMatchObject([{ line: 1, text: 'with an end\r' }])
      // In the broker, these would take hours in which it does nothing else.
      expect((await box.grep('with', '/workspace/lines', { glob: `${'*a'.repeat(20)}*b` })).matches).toEqual([])
    })
  })

  if (whole)
    describe(`${provider}: langsmith 0.12 over restarts`, () => {
      const clientOf = () =>
        new line12.SandboxClient({ apiEndpoint: `${stack.brokerUrl}/compat/langsmith/api/v2/sandboxes`, apiKey: API_KEY })

      test('a command goes on when its agent is killed, and runs once', async () => {
        const box = await clientOf().createSandbox({ name: 'killed-agent', timeout: 60 })
        const command = 'echo run >> runs.txt; for i in $(seq 20); do echo $i; sleep 0.1; done; wc -l < runs.txt; exit 7'
        const handle = await box.run(command, { wait: false })
        await shownBy(handle, /^1\n/)
        await stack.agent().kill('SIGKILL')
        await stack.startAgent()
        const lines = Array.from({ length: 20 }, (_, i) => `${i + 1}\n`).join('')
        expect(await handle.result).toMatchObject({ stdout: `${lines}1\n`, stderr: '', exit_code: 7 })
        expect(text(await box.read('/workspace/runs.txt'))).toBe('run\n')
      })

      test('the environment of a box is kept over a restart of the broker, and is not shown', async () => {
        const env_vars = { SECRET: 'kept-secret', BOTH: 'box' }
        const box = await clientOf().createSandbox({ name: 'environment', timeout: 60, runConfig: { env_vars } })
        await stack.broker().kill('SIGKILL')
        await stack.startBroker()
        const own = { env_vars: { BOTH: 'own' }, work_dir: '/tmp' }
        await expect.poll(async () => (await box.run('echo "$SECRET $BOTH"')).stdout, { timeout: 60_000 }).toBe('kept-secret box\n')
        expect((await box.run('echo "$SECRET $BOTH $PWD"', { runConfig: own })).stdout).toBe('kept-secret own /tmp\n')
        await expect(box.run('true', { runConfig: { user: 'root' } })).rejects.toThrow(/run_config.user is not supported/)
        const { sandboxes } = (
          await request(`${stack.brokerUrl}/compat/langsmith/v2/sandboxes/boxes`, { headers: { 'x-api-key': API_KEY } })
        ).body as { sandboxes: object[] }
        expect(JSON.stringify(sandboxes)).toContain('environment')
        expect(JSON.stringify(sandboxes)).not.toContain('kept-secret')
      })
    })

  test('the sandbox of deepagents works on top', async () => {
    const client = new line9.SandboxClient({ apiEndpoint: `${stack.brokerUrl}/compat/langsmith/v2/sandboxes`, apiKey: API_KEY })
    const sandbox = new LangSmithSandbox({ sandbox: (await client.createSandbox({ name: 'deepagents', timeout: 60 })) as never })
    expect(sandbox.id).toBe('deepagents')
    expect(await sandbox.execute('echo hello; exit 3')).toMatchObject({ output: 'hello\n', exitCode: 3 })
    expect(await sandbox.write('/workspace/notes.md', 'one\ntwo\n')).not.toHaveProperty('error', expect.any(String))
    expect(await sandbox.edit('/workspace/notes.md', 'two', 'three')).toMatchObject({ occurrences: 1 })
    expect(JSON.stringify(await sandbox.read('/workspace/notes.md'))).toContain('three')
    expect(JSON.stringify(await sandbox.ls('/workspace'))).toContain('notes.md')
    expect(await sandbox.downloadFiles(['/workspace/none', '/workspace'])).toMatchObject([
      { error: 'file_not_found' },
      { error: 'is_directory' },
    ])
    await sandbox.close()
  })

  if (whole)
    test('the Python client makes a box, runs commands, and reads and writes files', async () => {
      const env = { BOXOFFICE_URL: stack.brokerUrl, BOXOFFICE_API_KEY: API_KEY }
      const { code, output } = await runToEnd(PYTHON, [PYTHON_SUITE], { env })
      expect(code, output).toBe(0)
      expect(output.trim().split('\n')).toEqual(
        ['run', 'background', 'reconnect', 'terminal', 'files', 'search', 'life', 'refusals', 'async'].map((name) => `passed test_${name}`),
      )
    })

  test('the programs of the page run', async () => {
    const outputs: string[] = []
    for (const program of programsOf('langsmith.md')) outputs.push(await runProgram(program, stack))
    expect(outputs).toEqual(['hello from a box\n0\n'])
  })
}

/** What a command says until it matches. */
const shownBy = async (handle: line12.CommandHandle, pattern: RegExp): Promise<string> => {
  const chunks = handle[Symbol.asyncIterator]()
  let shown = ''
  while (!pattern.test(shown)) {
    const { value, done } = await chunks.next()
    if (done) return expect.fail(`ended after ${JSON.stringify(shown)}`)
    shown += value.data
  }
  return shown
}

/** The client goes without a word to its command. */
const closeSocketOf = async (handle: line12.CommandHandle): Promise<void> => {
  await (handle as unknown as { _stream: AsyncGenerator })._stream.return(undefined)
}

/** What the socket of a box says to these frames, to its close. */
const answersTo = async (box: line12.Sandbox, frames: object[]): Promise<{ type: string; data?: string }[]> => {
  const ws = new WebSocket(`${box.dataplane_url?.replace(/^http/, 'ws')}/execute/ws`, { headers: { 'x-api-key': API_KEY } })
  const answers: { type: string; data?: string }[] = []
  ws.on('message', (data) => answers.push(JSON.parse(String(data)) as { type: string }))
  await once(ws, 'open')
  for (const frame of frames) ws.send(JSON.stringify(frame))
  await once(ws, 'close')
  return answers
}
