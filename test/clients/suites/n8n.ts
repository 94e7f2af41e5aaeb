import { connect } from '@boxoffice/client'
import { SandboxClient, SandboxServiceError } from '@n8n/sandbox-client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { API_KEY, type ProviderName, type Stack, startStack } from '../../e2e/support/stack.ts'
import { createKey } from '../support/mcp-connection.ts'
import { programsOf, runProgram } from '../support/page-programs.ts'

type Event = { type: string; seq: number; data?: string; exit_code?: number }

const refusal = (status: number, message: RegExp = /./) => expect.objectContaining({ status, message: expect.stringMatching(message) })

/** n8n's published client against a running Boxoffice (contract 7.5). `whole`: every case, not only those of another engine. */
export const n8nSuite = (provider: ProviderName, { whole }: { whole: boolean }): void => {
  let stack: Stack
  let client: SandboxClient
  let id: string
  const clientOf = (apiKey: string) => new SandboxClient({ baseUrl: `${stack.brokerUrl}/compat/n8n`, apiKey, retry: { attempts: 0 } })
  const executions = (path: string, init: RequestInit = {}) =>
    fetch(`${stack.brokerUrl}/compat/n8n/sandboxes/${id}/executions${path}`, {
      ...init,
      headers: { 'x-api-key': API_KEY, 'content-type': 'application/json' },
    })
  const post = (fields: object, init: RequestInit = {}) => executions('', { ...init, method: 'POST', body: JSON.stringify(fields) })

  beforeAll(async () => {
    stack = await startStack({ provider })
    client = clientOf(API_KEY)
    id = (await client.createSandbox()).id
  })
  afterAll(() => stack?.[Symbol.asyncDispose]())

  test('a command gives each stream, its exit code and its time', async () => {
    const seen: string[] = []
    const result = await client.exec(id, {
      command: 'echo "$A"; pwd; echo err >&2; exit 42',
      env: { A: 'grüße', B: undefined },
      workdir: '/tmp',
      onStdout: (data) => seen.push(data),
    })
    expect(result).toMatchObject({ stdout: 'grüße\n/tmp\n', stderr: 'err\n', exitCode: 42, success: false, timedOut: false, killed: false })
    expect(seen.join('')).toBe(result.stdout)
    expect(result.executionTimeMs).toBeGreaterThanOrEqual(0)
    expect(await client.exec(id, { command: 'kill -9 $$' })).toMatchObject({ exitCode: 137, killed: true })
    await expect(client.exec(id, { command: 'true', workdir: '/nowhere' })).rejects.toBeInstanceOf(SandboxServiceError)
  })

  test('files are written, added to, read, and described', async () => {
    const bytes = Buffer.from(Uint8Array.from({ length: 256 }, (_, i) => i))
    await client.writeFile(id, '/workspace/deep/a ü.bin', bytes)
    expect((await client.readFile(id, '/workspace/deep/a ü.bin')).equals(bytes)).toBe(true)
    await client.writeFile(id, '/tmp/empty', '')
    expect((await client.readFile(id, '/tmp/empty')).length).toBe(0)
    await expect(client.writeFile(id, '/tmp/empty', 'x', false)).rejects.toEqual(refusal(409))
    for (const line of ['one\n', 'two\n']) await client.appendFile(id, '/workspace/logs/a log.txt', line)
    expect((await client.readFile(id, 'logs/a log.txt')).toString()).toBe('one\ntwo\n')
    await expect(client.appendFile(id, '/workspace/deep', 'x')).rejects.toEqual(refusal(400, /directory/i))
    expect(await client.stat(id, '/workspace/logs/a log.txt')).toMatchObject({
      name: 'a log.txt',
      path: '/workspace/logs/a log.txt',
      type: 'file',
      size: 8,
    })
    await expect(client.stat(id, '/workspace/none')).rejects.toEqual(refusal(404))
    await expect(client.readFile(id, '/workspace/none')).rejects.toEqual(refusal(404))
  })

  test('a sandbox is made, found again by its id, and deleted', async () => {
    const wanted = crypto.randomUUID()
    const made = await client.createSandbox({ id: wanted, ephemeral: true })
    expect(made).toMatchObject({ id: wanted, status: 'running', ephemeral: true })
    expect(Math.abs(made.createdAt - Date.now() / 1000)).toBeLessThan(600)
    await client.writeFile(wanted, 'kept', 'kept')
    expect((await client.createSandbox({ id: wanted })).id).toBe(wanted)
    expect((await client.exec(wanted, { command: 'cat kept' })).stdout).toBe('kept')
    expect(await client.getSandbox(id)).toMatchObject({ id, status: 'running', ephemeral: false })
    await client.deleteSandbox(wanted)
    await client.deleteSandbox(wanted)
    await expect(client.getSandbox(wanted)).rejects.toEqual(refusal(404))
    await expect(client.exec(wanted, { command: 'true' })).rejects.toEqual(refusal(404))
  })

  if (!whole) return

  test('directories are made, listed, copied, moved and deleted', async () => {
    await client.mkdir(id, 'src/deep', true)
    await expect(client.mkdir(id, 'src')).rejects.toEqual(refusal(409))
    await expect(client.mkdir(id, 'none/below')).rejects.toEqual(refusal(404))
    await client.writeFile(id, 'src/a.ts', 'a')
    await client.writeFile(id, 'src/deep/b.ts', 'bb')
    await client.writeFile(id, 'src/c.md', 'c')
    expect(await client.listFiles(id, { path: '/workspace/src' })).toMatchObject([
      { name: 'a.ts', size: 1, isDir: false, type: 'file', modTime: expect.stringMatching(/^\d{4}-/) },
      { name: 'c.md' },
      { name: 'deep', isDir: true, type: 'directory' },
    ])
    const found = await client.listFiles(id, { path: 'src', recursive: true, extension: '.ts' })
    expect(found.map(({ name }) => name)).toEqual(['a.ts', 'deep/b.ts'])
    await client.copyFile(id, { src: 'src/a.ts', dest: '/tmp/n8n/-copy.ts' })
    await expect(client.copyFile(id, { src: 'src/a.ts', dest: '/tmp/n8n/-copy.ts' })).rejects.toEqual(refusal(409))
    await client.copyFile(id, { src: 'src/c.md', dest: '/tmp/n8n/-copy.ts', overwrite: true })
    expect((await client.readFile(id, '/tmp/n8n/-copy.ts')).toString()).toBe('c')
    await expect(client.copyFile(id, { src: 'src', dest: 'copied' })).rejects.toEqual(refusal(400, /directory/))
    await expect(client.copyFile(id, { src: 'src', dest: 'src/deep/x', recursive: true })).rejects.toEqual(refusal(400, /below/))
    await expect(client.copyFile(id, { src: 'none', dest: 'x' })).rejects.toEqual(refusal(404))
    await client.copyFile(id, { src: 'src', dest: 'copied', recursive: true })
    expect((await client.readFile(id, 'copied/deep/b.ts')).toString()).toBe('bb')
    await client.moveFile(id, { src: 'copied', dest: 'moved' })
    await expect(client.moveFile(id, { src: 'src/a.ts', dest: 'src/c.md' })).rejects.toEqual(refusal(409))
    await client.moveFile(id, { src: 'src/a.ts', dest: 'src/c.md', overwrite: true })
    expect((await client.readFile(id, 'src/c.md')).toString()).toBe('a')
    await expect(client.deleteFile(id, 'moved')).rejects.toEqual(refusal(400))
    await client.deleteFile(id, 'moved', { recursive: true })
    await expect(client.deleteFile(id, 'moved')).rejects.toEqual(refusal(404))
    await client.deleteFile(id, 'moved', { force: true })
  })

  test('output is whole, and no character is split', async () => {
    const result = await client.exec(id, {
      command: `i=0; while [ $i -lt 9000 ]; do printf 'aü漢😀'; i=$((i+1)); done; printf '\\377' >&2`,
    })
    expect(result.stdout).toBe('aü漢😀'.repeat(9000))
    expect(result.stderr).toBe('\ufffd')
    const slow = await post({ command: 'head -c 16000000 /dev/zero | tr "\\0" x' })
    expect((await client.exec(id, { command: 'echo meanwhile' })).stdout).toBe('meanwhile\n')
    expect(eventsOf(await slow.text()).reduce((length, { data = '' }) => length + data.length, 0)).toBe(16_000_000)
  })

  test('a command is followed from where its client was, and runs once', async () => {
    const exec_id = crypto.randomUUID()
    const fields = { exec_id, command: 'echo first; until [ -e go ]; do sleep 0.05; done; echo then | tee -a ran' }
    const gone = new AbortController()
    const first = await post(fields, { signal: gone.signal })
    expect(first.headers.get('content-type')).toBe('application/x-ndjson')
    const events = await firstEvents(first, 2)
    expect(events).toMatchObject([
      { type: 'started', exec_id },
      { type: 'stdout', data: 'first\n' },
    ])
    gone.abort()
    const { exec } = await connect(stack.brokerUrl, { apiKey: API_KEY }).session(`n8n/${id}`)
    await expect.poll(async () => (await exec.list()).find((one) => one.execId === exec_id)?.attached, { timeout: 60_000 }).toBe(0)
    const rest = client.resumeExecution(id, exec_id, events[1]?.seq)
    await client.writeFile(id, 'go', '')
    expect(await rest).toMatchObject({ stdout: 'then\n', exitCode: 0 })
    expect(await client.resumeExecution(id, exec_id)).toMatchObject({ stdout: 'first\nthen\n' })
    const again = eventsOf(await (await post(fields)).text())
    expect([again[0], again.at(-1)]).toMatchObject([
      { type: 'started', exec_id },
      { type: 'exit', exit_code: 0 },
    ])
    expect(again.map(({ data = '' }) => data).join('')).toBe('first\nthen\n')
    expect((await client.readFile(id, 'ran')).toString()).toBe('then\n')
    await client.deleteExecution(id, exec_id)
    await expect(client.deleteExecution(id, crypto.randomUUID())).rejects.toEqual(refusal(404))
    await expect(client.resumeExecution(id, 'a%2f..%2fb')).rejects.toEqual(refusal(404))
  })

  test('output that is kept no more is told as such', async () => {
    const exec_id = crypto.randomUUID()
    const events = eventsOf(await (await post({ exec_id, command: 'head -c 3000000 /dev/zero | tr "\\0" x' })).text())
    await expect(client.resumeExecution(id, exec_id, events[0]?.seq)).rejects.toEqual(refusal(410))
    expect(await client.resumeExecution(id, exec_id, events.at(-2)?.seq)).toMatchObject({ stdout: '', exitCode: 0 })
  })

  test('a command is ended by its time, and by its client', async () => {
    expect(await client.exec(id, { command: 'exec sleep 600', timeoutMs: 500 })).toMatchObject({ timedOut: true, success: false })
    const stop = new AbortController()
    const stopped = client.exec(id, { command: 'echo on; exec sleep 601', abortSignal: stop.signal, onStdout: () => stop.abort() })
    await expect(stopped).rejects.toBeInstanceOf(Error)
    const left = async () => (await client.exec(id, { command: `pgrep -f '[s]leep 60[01]' || true` })).stdout
    await expect.poll(left, { timeout: 60_000 }).toBe('')
  })

  test('a wrong key, another tenant and a bad request are refused', async () => {
    await expect(clientOf('not-a-key-0123456789abcdefghijklmnopqrst').createSandbox()).rejects.toEqual(refusal(401))
    const stranger = clientOf(await createKey(stack.brokerUrl, 'mallory', 'other-tenant'))
    await expect(stranger.getSandbox(id)).rejects.toEqual(refusal(404))
    await expect(stranger.exec(id, { command: 'true' })).rejects.toEqual(refusal(404))
    await expect(stranger.readFile(id, '/workspace/ran')).rejects.toEqual(refusal(404))
    await expect(client.getSandbox('..%2f..%2fv1')).rejects.toEqual(refusal(404))
    await expect(client.createSandbox({ id: 'no-uuid' })).rejects.toEqual(refusal(400, /UUID/))
    await expect(client.readFile(id, '')).rejects.toEqual(refusal(400, /path/))
    await expect(client.readFile(id, '/workspace/deep')).rejects.toEqual(refusal(400, /directory/))
    await expect(client.appendFile(id, 'large', Buffer.alloc(11_000_000))).rejects.toMatchObject({ name: 'SandboxServiceError' })
    const bad = await executions('/x?after=-1&follow=true')
    expect([bad.status, await bad.json()]).toEqual([400, { error: expect.stringContaining('after'), code: 400 }])
    expect((await executions('/x')).status).toBe(501)
  })

  test('the program of the page runs', async () => {
    const [program] = programsOf('n8n.md')
    expect(await runProgram(program ?? '', stack)).toBe('hello from a sandbox\n0\n')
  })
}

/** The first events of a response whose rest is not read. */
const firstEvents = async ({ body }: Response, count: number): Promise<Event[]> => {
  let text = ''
  for await (const chunk of body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += chunk
    if (text.split('\n').length > count) break
  }
  return text.split('\n', count).map((line) => JSON.parse(line) as Event)
}

const eventsOf = (text: string): Event[] =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Event)
