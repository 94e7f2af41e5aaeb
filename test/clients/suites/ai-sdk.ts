import { connect, type Session } from '@boxoffice/client'
import { aiSandbox } from '@boxoffice/client/ai-sdk'
import { type Experimental_SandboxSession, generateText, isStepCount, tool } from 'ai'
import { MockLanguageModelV4 } from 'ai/test'
import { beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { API_KEY, type Stack } from '../../e2e/support/stack.ts'
import { programsOf, runProgram } from '../support/page-programs.ts'

/** A session as the sandbox of the published `ai`; with the program of the page where `page` says so. */
export const aiSdkSuite = (stack: () => Stack, { page = false } = {}): void => {
  describe('the AI SDK', () => {
    let session: Session
    let sandbox: Experimental_SandboxSession
    beforeAll(async () => {
      session = await connect(stack().brokerUrl, { apiKey: API_KEY }).session('ai-sdk')
      sandbox = aiSandbox(session)
    })

    test('a tool of generateText runs commands in the sandbox', async () => {
      const shell = tool({
        inputSchema: z.object({ command: z.string() }),
        execute: async ({ command }, { experimental_sandbox }) => await experimental_sandbox?.run({ command }),
      })
      const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } }
      const call = {
        type: 'tool-call',
        toolCallId: 'call-1',
        toolName: 'shell',
        input: JSON.stringify({ command: 'echo from $((40 + 2))' }),
      }
      const answers = [
        { content: [call], finishReason: { unified: 'tool-calls' }, usage, warnings: [] },
        { content: [{ type: 'text', text: 'done' }], finishReason: { unified: 'stop' }, usage, warnings: [] },
      ]
      const model = new MockLanguageModelV4({ doGenerate: answers as never })
      const options = { model, tools: { shell }, prompt: 'add', stopWhen: isStepCount(3) }
      const { steps, text } = await generateText({ ...options, experimental_sandbox: sandbox })
      expect(steps[0]?.toolResults.map(({ output }) => output)).toEqual([{ exitCode: 0, stdout: 'from 42\n', stderr: '' }])
      expect(text).toBe('done')
    })

    test('run gives exit code and both streams', async () => {
      const command = 'echo "$WHO in $PWD"; echo bad >&2; exit 42'
      const options = { command, env: { WHO: 'me' }, workingDirectory: '/tmp' }
      expect(await sandbox.run(options)).toEqual({ exitCode: 42, stdout: 'me in /tmp\n', stderr: 'bad\n' })
    })

    test('files are written and read as text, bytes and streams', async () => {
      const bytes = Uint8Array.from({ length: 256 }, (_, i) => i)
      await sandbox.writeTextFile({ path: 'deep/er/text.txt', content: 'zwölf\nöl\n' })
      await sandbox.writeBinaryFile({ path: '/workspace/bytes', content: bytes })
      await sandbox.writeFile({ path: '/tmp/stream', content: new Blob([bytes, bytes]).stream() })
      expect(await sandbox.readTextFile({ path: '/workspace/deep/er/text.txt' })).toBe('zwölf\nöl\n')
      expect(await sandbox.readBinaryFile({ path: 'bytes' })).toEqual(bytes)
      const stream = await sandbox.readFile({ path: '/tmp/stream' })
      expect((await new Response(stream).arrayBuffer()).byteLength).toBe(512)
      expect(await sandbox.run({ command: 'wc -c < bytes; wc -c < /tmp/stream' })).toMatchObject({ stdout: '256\n512\n' })
    })

    test('what is missing is null', async () => {
      expect(await sandbox.readFile({ path: 'none' })).toBeNull()
      expect(await sandbox.readBinaryFile({ path: 'none/at/all' })).toBeNull()
      expect(await sandbox.readTextFile({ path: '/tmp/none' })).toBeNull()
      expect(await sandbox.stat({ path: 'none' })).toBeNull()
      expect(await sandbox.listDirectory({ path: 'none' })).toBeNull()
      expect(await sandbox.deleteFile({ path: 'none' })).toBe(false)
    })

    test('a spawned process streams, takes input and ends', async () => {
      const running = await sandbox.spawn({ command: 'cat; echo end >&2; exit 7', stdin: true })
      const writer = running.stdin.getWriter()
      await writer.write(new TextEncoder().encode('one\n'))
      await writer.write(new TextEncoder().encode('two\n'))
      await writer.close()
      const [stdout, stderr] = await Promise.all([new Response(running.stdout).text(), new Response(running.stderr).text()])
      expect({ stdout, stderr, ...(await running.wait()) }).toEqual({ stdout: 'one\ntwo\n', stderr: 'end\n', exitCode: 7 })
      expect(running.pid).toEqual(expect.any(Number))
    })

    test('a process without stdin has none', async () => {
      const running = await sandbox.spawn({ command: 'cat; echo end' })
      expect('stdin' in running).toBe(false)
      expect(await new Response(running.stdout).text()).toBe('end\n')
      expect(await running.wait()).toEqual({ exitCode: 0 })
    })

    test('kill ends a process, and a second time is fine', async () => {
      const running = await sandbox.spawn({ command: 'trap "" TERM; echo up; sleep 600' })
      const reader = running.stdout.getReader()
      expect(new TextDecoder().decode((await reader.read()).value)).toBe('up\n')
      await running.kill()
      await running.kill()
      expect(await running.wait()).toEqual({ exitCode: 137 })
    })

    test('an abort ends run and spawn with its reason', async () => {
      const ends = async (begin: (abortSignal: AbortSignal) => PromiseLike<unknown>): Promise<void> => {
        const controller = new AbortController()
        const ended = begin(controller.signal)
        await expect.poll(async () => (await sandbox.stat({ path: 'started' })) !== null).toBe(true)
        controller.abort(new Error('enough'))
        await expect(ended).rejects.toThrow('enough')
        await sandbox.deleteFile({ path: 'started' })
      }
      const command = 'touch started; exec sleep 600'
      await ends((abortSignal) => sandbox.run({ command, abortSignal }))
      await ends(async (abortSignal) => await (await sandbox.spawn({ command, abortSignal })).wait())
    })

    test('more output than is kept unread passes whole', async () => {
      const running = await sandbox.spawn({ command: 'head -c 3000000 /dev/zero' })
      expect((await new Response(running.stdout).arrayBuffer()).byteLength).toBe(3_000_000)
      expect(await sandbox.run({ command: 'head -c 3000000 /dev/zero | tr "\\0" x' })).toMatchObject({ stdout: 'x'.repeat(3_000_000) })
    })

    test('a stream that is not read to its end does not hold the process up', async () => {
      const running = await sandbox.spawn({ command: 'head -c 3000000 /dev/zero; exit 5' })
      await running.stdout.cancel()
      expect(await running.wait()).toEqual({ exitCode: 5 })
    })

    test('a reader of a process that is silent may leave', async () => {
      const running = await sandbox.spawn({ command: 'echo up; exec sleep 600' })
      for await (const piece of running.stdout) {
        expect(new TextDecoder().decode(piece)).toBe('up\n')
        break
      }
      const reader = running.stderr.getReader()
      const read = reader.read()
      await reader.cancel()
      expect(await read).toMatchObject({ done: true })
      await running.kill()
      expect(await running.wait()).toEqual({ exitCode: 137 })
    })

    test('text has ranges of lines and encodings', async () => {
      await sandbox.writeTextFile({ path: 'lines', content: 'a\nb\r\nc\n' })
      const read = (options: { startLine?: number; endLine?: number }) => sandbox.readTextFile({ path: 'lines', ...options })
      expect(await read({ startLine: 2, endLine: 2 })).toBe('b')
      expect(await read({ endLine: 2 })).toBe('a\nb')
      expect(await read({ startLine: 2, endLine: 99 })).toBe('b\r\nc\n')
      expect(await read({ startLine: 99 })).toBe('')
      await sandbox.writeTextFile({ path: 'wide', content: 'zwölf', encoding: 'utf-16le' })
      expect(await sandbox.readBinaryFile({ path: 'wide' })).toEqual(new Uint8Array(Buffer.from('zwölf', 'utf16le')))
      expect(await sandbox.readTextFile({ path: 'wide', encoding: 'utf-16le' })).toBe('zwölf')
    })

    test('stat and listDirectory tell types, deleteFile deletes links', async () => {
      await sandbox.run({
        command: 'mkdir -p tree/sub && echo 12345 > tree/file && ln -s sub tree/link && ln -s none tree/dangling && mkfifo tree/pipe',
      })
      expect(await sandbox.stat({ path: 'tree/file' })).toEqual({ type: 'file', size: 6 })
      expect(await sandbox.stat({ path: 'tree/link' })).toMatchObject({ type: 'directory' })
      expect(await sandbox.stat({ path: 'tree/pipe' })).toMatchObject({ type: 'other' })
      expect(await sandbox.stat({ path: 'tree/dangling' })).toBeNull()
      const entries = (await sandbox.listDirectory({ path: 'tree' })) ?? []
      expect(Object.fromEntries(entries.map(({ name, type }) => [name, type]))).toEqual({
        ...{ sub: 'directory', file: 'file', link: 'symlink', dangling: 'symlink', pipe: 'other' },
      })
      expect(await sandbox.deleteFile({ path: 'tree/link' })).toBe(true)
      expect(await sandbox.stat({ path: 'tree/sub' })).toMatchObject({ type: 'directory' })
    })

    test('a directory in the place of a file is refused, and the other way round', async () => {
      await sandbox.run({ command: 'mkdir -p place && touch plain' })
      await expect(sandbox.readBinaryFile({ path: 'place' })).rejects.toMatchObject({ code: 'IS_DIRECTORY' })
      await expect(sandbox.writeTextFile({ path: 'place', content: '' })).rejects.toMatchObject({ code: 'IS_DIRECTORY' })
      await expect(sandbox.deleteFile({ path: 'place' })).rejects.toMatchObject({ code: 'IS_DIRECTORY' })
      await expect(sandbox.listDirectory({ path: 'plain' })).rejects.toMatchObject({ code: 'NOT_A_DIRECTORY' })
    })

    test('an encoding that nobody can write is refused by name', async () => {
      const write = (encoding: string) => sandbox.writeTextFile({ path: 'text', content: 'a', encoding })
      await expect(write('shift_jis')).rejects.toMatchObject({ code: 'UNSUPPORTED', status: 501, message: /shift_jis/ })
      await expect(write('klingon')).rejects.toMatchObject({ code: 'INVALID_REQUEST', message: /klingon/ })
    })

    test('the description names neither addresses nor tokens', () => {
      expect(sandbox.description).toContain('/workspace')
      expect(sandbox.description).not.toMatch(/http|eyJ|bxo_/)
      expect(aiSandbox(session, { description: 'mine' }).description).toBe('mine')
    })

    if (!page) return

    test('the program of the page runs', async () => {
      const [program = ''] = programsOf('ai-sdk.md')
      expect(await runProgram(program, stack())).toBe('0 Hello, AI SDK\n null\n')
    })
  })
}
