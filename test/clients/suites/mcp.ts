import { connect, type Session } from '@boxoffice/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { API_KEY, type ProviderName, type Stack, startStack } from '../../e2e/support/stack.ts'
import { type Connection, connectMcp, createKey, type Way } from '../support/mcp-connection.ts'
import { programsOf, runProgram } from '../support/page-programs.ts'

/** A compact JWT, or a key, wherever it may be. */
const SECRET = new RegExp(`eyJ[\\w-]+\\.[\\w-]+\\.[\\w-]+|bxo_[\\w-]{20}|${API_KEY}`)

const TOOLS = [
  ...['exec', 'process_start', 'process_list', 'process_status', 'process_output', 'process_write', 'process_signal'],
  ...['read_file', 'write_file', 'edit_file', 'list_dir', 'glob', 'grep', 'upload', 'download', 'session_info', 'session_release'],
  ...['environment_acquire', 'environment_refresh', 'environment_heartbeat', 'environment_release'],
]

export type McpSuite = {
  provider: ProviderName
  ways: readonly Way[]
  mode?: 'direct' | 'relay'
  /** Only what another engine may do otherwise. */
  brief?: boolean
}

/** The official client drives the tools of the broker, and those of `boxoffice mcp`. */
export const mcpSuite = (options: McpSuite): void => {
  describe(`${options.provider}, ${options.mode ?? 'direct'}`, () => define(options))
}

const define = ({ provider, ways, mode = 'direct', brief = false }: McpSuite): void => {
  let stack: Stack
  let stranger: string
  beforeAll(async () => {
    stack = await startStack({ provider, mode })
    stranger = await createKey(stack.brokerUrl, 'mallory', 'other-tenant')
  })
  afterAll(() => stack?.[Symbol.asyncDispose]())

  describe.each(ways)('$transport, $era revision: an MCP host', (way) => {
    const thread = `mcp-${way.transport}-${way.era}`
    let host: Connection
    /** The same sandbox by the SDK. */
    let session: Session
    beforeAll(async () => {
      host = await connectMcp({ ...way, brokerUrl: stack.brokerUrl, thread })
      session = await connect(stack.brokerUrl, { apiKey: API_KEY }).session(thread)
    })
    afterAll(async () => {
      expect(host.read.join('\n')).not.toMatch(SECRET)
      await host.close()
    })

    if (!brief)
      test('[C-73] has tools with schemas, whose arguments name no thread and no token', async () => {
        const { tools } = await host.client.listTools()
        expect(tools.map(({ name }) => name)).toEqual(TOOLS)
        for (const tool of tools) expect(tool, tool.name).toMatchObject({ title: expect.any(String), outputSchema: { type: 'object' } })
        const exec = tools.find(({ name }) => name === 'exec')
        expect(Object.keys(exec?.inputSchema.properties ?? {}).sort()).toEqual(['command', 'env', 'timeout_sec', 'workdir'])
        await expect(host.client.callTool({ name: 'nothing', arguments: {} })).rejects.toThrow(/no tool "nothing"/)
      })

    test('[2-16] runs commands in the sandbox that others of its thread see', async () => {
      await session.files.upload('from-sdk', 'seen')
      const ran = await host.call('exec', { command: 'cat from-sdk; echo $A >&2; exit 3', env: { A: 'b' } })
      expect(ran).toMatchObject({ session_id: session.id, backend: provider, ok: false, exit_code: 3, stdout: 'seen', stderr: 'b\n' })
      expect(await host.call('exec', { command: 'sleep 60', timeout_sec: 0.2 })).toMatchObject({ status: 'timed_out', exit_code: null })
      const { stdout } = await host.call<{ stdout: string }>('exec', { command: 'seq 1 100000' })
      expect(stdout.length).toBeLessThanOrEqual(4000)
      for (const wrong of [{}, { command: ' ' }, { command: 'true', image: 'x' }])
        expect(await host.refused('exec', wrong)).toMatch(/^INVALID_REQUEST: /)
    })

    test('writes, reads, edits, lists and finds files', async () => {
      expect(await host.call('write_file', { path: 'src/a.txt', content: 'one\ntwo ä\n' })).toEqual({
        path: 'src/a.txt',
        size: 11,
        created: true,
      })
      expect(await host.call('read_file', { path: 'src/a.txt', first_line: 2, line_count: 1 })).toMatchObject({
        content: 'two ä\n',
        total_lines: 2,
      })
      expect(await host.call('edit_file', { path: '/workspace/src/a.txt', old_text: 'two', new_text: '$& zwei' })).toMatchObject({
        replacements: 1,
      })
      expect(await session.files.text('src/a.txt')).toBe('one\n$& zwei ä\n')
      expect(await host.refused('edit_file', { path: 'src/a.txt', old_text: 'three', new_text: '' })).toMatch(/does not have it/)
      expect(await host.refused('edit_file', { path: 'src/a.txt', old_text: 'e', new_text: '' })).toMatch(/has it 2 times/)
      await session.files.upload('many-a', 'a'.repeat(200_000))
      const longer = { path: 'many-a', old_text: 'a', new_text: 'b'.repeat(100), replace_all: true }
      expect(await host.refused('edit_file', longer)).toMatch(/more than 10485760/)
      expect(await host.call('list_dir', { path: 'src' })).toMatchObject({
        entries: [{ path: 'src/a.txt', type: 'file' }],
        truncated: false,
      })
      expect(await host.call('glob', { pattern: 'src/**/*.txt' })).toEqual({ files: ['src/a.txt'], truncated: false })
      expect(await host.call('grep', { pattern: 'zw.i', path: 'src', glob: '*.txt' })).toEqual({
        matches: [{ path: 'src/a.txt', line: 2, text: '$& zwei ä' }],
        truncated: false,
      })
      expect(await host.call('grep', { pattern: 'zw.i', path: 'src', literal: true })).toEqual({ matches: [], truncated: false })
      expect(await host.refused('read_file', { path: 'none' })).toMatch(/^FILE_NOT_FOUND: /)
      expect(await host.refused('read_file', { path: '../../etc/passwd' })).toMatch(/^INVALID_PATH: /)
    })

    test('uploads and downloads bytes as they are', async () => {
      const bytes = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))
      await host.call('upload', { path: 'all-bytes', content_base64: bytes.toString('base64'), mode: '0600' })
      expect(Buffer.from(await session.files.download('all-bytes'))).toEqual(bytes)
      expect(await host.call('download', { path: 'all-bytes' })).toEqual({
        path: 'all-bytes',
        size: 256,
        content_base64: bytes.toString('base64'),
      })
      expect(host.read.at(-1)).not.toContain(bytes.toString('base64').slice(0, 20))
      expect(await host.refused('read_file', { path: 'all-bytes' })).toMatch(/not UTF-8/)
      expect(await host.refused('upload', { path: 'x', content_base64: '%%%' })).toMatch(/^INVALID_REQUEST: content_base64/)
    })

    if (!brief)
      test('is refused what one call cannot hold', async () => {
        await session.exec('truncate -s 10485761 large; seq 1 20000 > lines; mkdir many; cd many; seq 1 600 | xargs touch')
        for (const tool of ['read_file', 'download']) expect(await host.refused(tool, { path: 'large' })).toMatch(/^PAYLOAD_TOO_LARGE: /)
        expect(await host.call('read_file', { path: 'lines' })).toMatchObject({
          truncated: true,
          content: expect.stringMatching(/^1\n2\n/),
        })
        const { entries } = await host.call<{ entries: unknown[] }>('list_dir', { path: 'many' })
        expect(entries).toHaveLength(500)
        const { matches } = await host.call<{ matches: unknown[] }>('grep', { pattern: '[0-9]', path: 'lines' })
        expect(matches).toHaveLength(500)
      })

    test('starts a process, writes to it, reads its output, and ends it', async () => {
      const { process_id } = await host.call<{ process_id: string }>('process_start', {
        command: 'while read line; do echo "got $line"; done; echo end',
      })
      const read = async (offset: number) =>
        await host.call<{ output: string; next_offset: number; ended: boolean }>('process_output', { process_id, offset, wait_sec: 20 })
      await host.call('process_write', { process_id, input: 'ä\n' })
      const first = await read(0)
      expect(first).toMatchObject({ output: 'got ä\n', ended: false })
      expect(await host.call('process_list', { state: 'running' })).toMatchObject({
        processes: [{ process_id, state: 'running', exit_code: null }],
      })
      await host.call('process_write', { process_id, input: 'two\n', end: true })
      let [text, offset, ended] = ['', first.next_offset, false]
      while (!ended) {
        const more = await read(offset)
        text += more.output
        offset = more.next_offset
        ended = more.ended
      }
      expect(text).toBe('got two\nend\n')
      await expect.poll(() => host.call('process_status', { process_id })).toMatchObject({ state: 'exited', exit_code: 0 })

      const endless = await host.call<{ process_id: string }>('process_start', { command: 'exec sleep 1000' })
      expect(await host.call('process_signal', endless)).toMatchObject({ delivered: true })
      await expect.poll(() => host.call('process_status', endless)).toMatchObject({ state: 'exited' })
      expect(await host.refused('process_status', { process_id: 'none' })).toMatch(/^EXEC_NOT_FOUND: /)
    })

    if (way.transport === 'http' && way.era === 'modern')
      test('writes to a process more than a pipe holds, and nothing is lost', async () => {
        const command = 'until [ -e go ]; do sleep 0.05; done; wc -c'
        const { process_id } = await host.call<{ process_id: string }>('process_start', { command })
        const input = 'x'.repeat(64 * 1024)
        for (let i = 0; i < 16; i++) {
          // The sandbox keeps the first half for a process that does not read yet.
          if (i === 8) await host.call('write_file', { path: 'go', content: '' })
          expect(await host.call('process_write', { process_id, input, end: i === 15 })).toMatchObject({ written: input.length })
        }
        await expect.poll(() => host.call('process_output', { process_id, wait_sec: 30 })).toMatchObject({ output: `${1024 * 1024}\n` })
      })

    test('cancels a command, which is dead then', async () => {
      const stop = new AbortController()
      const running = host.client.callTool(
        { name: 'exec', arguments: { command: 'echo $$ > pid; exec sleep 1000', timeout_sec: 900 } },
        { signal: stop.signal },
      )
      running.catch(() => {})
      const alive = async (): Promise<boolean> => (await session.exec('kill -0 $(cat pid)')).exitCode === 0
      await expect.poll(alive).toBe(true)
      stop.abort()
      await expect(running).rejects.toThrow()
      await expect.poll(alive).toBe(false)
    })

    if (!brief)
      test('goes, and its command ends', async () => {
        const one = await connectMcp({ ...way, brokerUrl: stack.brokerUrl, thread })
        const running = one.client.callTool({ name: 'exec', arguments: { command: 'echo $$ > gone; exec sleep 1000', timeout_sec: 900 } })
        running.catch(() => {})
        const alive = async (): Promise<boolean> => (await session.exec('kill -0 $(cat gone)')).exitCode === 0
        await expect.poll(alive).toBe(true)
        await one.close()
        await expect(running).rejects.toThrow()
        await expect.poll(alive).toBe(false)
      })

    if (!brief)
      test('hears that a long command goes on', async () => {
        const heard = Promise.withResolvers<unknown>()
        const running = host.client.callTool(
          { name: 'exec', arguments: { command: 'until [ -e heard ]; do sleep 0.1; done', timeout_sec: 120 } },
          { onprogress: heard.resolve },
        )
        expect(await heard.promise).toMatchObject({ progress: expect.any(Number), message: expect.stringMatching(/^exec runs for \d+ s$/) })
        await session.files.upload('heard', '')
        expect(await running).toMatchObject({ structuredContent: { ok: true } })
      })

    test('looks at its sandbox, and has a new one after it is released', async () => {
      const one = await connectMcp({ ...way, brokerUrl: stack.brokerUrl, thread: `${thread}-released` })
      const info = await one.call('session_info')
      expect(info).toMatchObject({
        thread_id: `${thread}-released`,
        provider,
        state: 'active',
        capabilities: expect.arrayContaining(['exec']),
      })
      expect(await one.call('session_release')).toEqual({ session_id: info.session_id, released: true })
      const { session_id } = await one.call('session_info')
      expect(session_id).not.toBe(info.session_id)
      // Ended by somebody else, it is refused once.
      await one.call('environment_release', { session_id })
      expect(await one.refused('exec', { command: 'true' })).toMatch(/^SESSION_RELEASED: /)
      expect(await one.call('exec', { command: 'true' })).toMatchObject({ ok: true })
      await one.call('session_release')
      await one.close()
    })

    test('of another tenant comes to nothing', async () => {
      const other = await connectMcp({ ...way, brokerUrl: stack.brokerUrl, thread, key: stranger })
      await host.call('write_file', { path: 'mine', content: 'secret' })
      const read = await other.client.callTool({ name: 'read_file', arguments: { path: 'mine' } })
      expect(JSON.stringify(read)).not.toContain('secret')
      expect(read.isError).toBe(true)
      expect(await other.refused('environment_refresh', { session_id: session.id })).toMatch(/^(FORBIDDEN|SESSION_NOT_FOUND): /)
      await other.close()
    })
  })
  if (!brief)
    test('the program of the page runs', async () => {
      const [program = ''] = programsOf('mcp.md')
      expect(await runProgram(program, stack)).toBe('Hello, MCP\n\n')
    })
}
