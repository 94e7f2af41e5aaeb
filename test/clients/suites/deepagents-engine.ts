import { randomBytes } from 'node:crypto'
import { BoxofficeSandbox } from '@boxoffice/deepagents'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { API_KEY, type Mode, type ProviderName, type Stack, startStack } from '../../e2e/support/stack.ts'

/** What depends on the engine and its image: the programs that deepagents runs, who may write where. */
export const engineSuite = (provider: ProviderName, mode: Mode): void => {
  describe(`${provider}, ${mode}: BoxofficeSandbox`, () => {
    let stack: Stack
    let sandbox: BoxofficeSandbox
    beforeAll(async () => {
      stack = await startStack({ provider, mode })
      sandbox = await BoxofficeSandbox.create({
        url: stack.brokerUrl,
        auth: { apiKey: API_KEY },
        initialFiles: { '/workspace/a/b.txt': 'one\ntwo\n' },
      })
    })
    afterAll(async () => {
      await sandbox?.close()
      await stack?.[Symbol.asyncDispose]()
    })

    test('[7.1] executes with exact exit codes and both streams in order', async () => {
      expect(await sandbox.execute('pwd; echo a >&2; echo b; exit 42')).toEqual({
        output: '/workspace\na\nb\n',
        exitCode: 42,
        truncated: false,
      })
      expect(await sandbox.execute('no-such-command')).toMatchObject({ exitCode: 127 })
    })

    test('[7.1] moves any bytes to and fro', async () => {
      const content = randomBytes(1024 * 1024)
      await sandbox.uploadFiles([['/workspace/ü b.bin', content]])
      expect(Buffer.from((await sandbox.downloadFiles(['/workspace/ü b.bin']))[0]?.content ?? '').equals(content)).toBe(true)
    })

    test('[7.1] reads, lists, finds, edits and deletes with the programs of the image', async () => {
      expect(await sandbox.read('/workspace/a/b.txt', 1, 1)).toMatchObject({ content: '     2\ttwo\n' })
      expect((await sandbox.ls('/workspace')).files?.map(({ path }) => path)).toContain('/workspace/a/')
      expect(await sandbox.grep('two', '/workspace/a')).toMatchObject({ matches: [{ path: '/workspace/a/b.txt', line: 2, text: 'two' }] })
      expect((await sandbox.glob('**/*.txt', '/workspace')).files?.map(({ path }) => path)).toEqual(['a/b.txt'])
      expect(await sandbox.edit('/workspace/a/b.txt', 'two', '2')).toMatchObject({ occurrences: 1 })
      expect(await sandbox.execute('cat a/b.txt')).toMatchObject({ output: 'one\n2\n' })
      expect(await sandbox.delete('/workspace/a')).toMatchObject({ path: '/workspace/a' })
      expect(await sandbox.downloadFiles(['/workspace/a/b.txt'])).toMatchObject([{ error: 'file_not_found' }])
    })

    test('[7.1] keeps what may not be written elsewhere below /workspace', async () => {
      expect(await sandbox.write('/large_tool_results/x', 'result')).toMatchObject({ path: '/large_tool_results/x' })
      expect(await sandbox.execute('cat /workspace/large_tool_results/x')).toMatchObject({ output: 'result' })
      await sandbox.write('/tmp/y', 'temporary')
      expect(await sandbox.execute('cat /tmp/y')).toMatchObject({ output: 'temporary' })
    })
  })
}
