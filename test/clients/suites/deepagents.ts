import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { connect } from '@boxoffice/client'
import { BoxofficeError, BoxofficeSandbox } from '@boxoffice/deepagents'
import { SandboxError } from 'deepagents'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { API_KEY, type Mode, type ProviderName, type Stack, startStack } from '../../e2e/support/stack.ts'

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)
const sha256 = (content: Uint8Array | null | undefined): string =>
  createHash('sha256')
    .update(content ?? '')
    .digest('hex')

/** The methods of a backend, one by one, as the ecosystem's standard suite calls them (contract 7.1). */
export const backendSuite = (provider: ProviderName, modes: readonly Mode[]): void => {
  describe.each(modes)(`%s, ${provider}: BoxofficeSandbox`, (mode) => {
    let stack: Stack
    let sandbox: BoxofficeSandbox
    const options = () => ({ url: stack.brokerUrl, auth: { apiKey: API_KEY } })
    beforeAll(async () => {
      stack = await startStack({ provider, mode })
      sandbox = await BoxofficeSandbox.create({ ...options(), timeout: 60 })
    })
    afterAll(async () => {
      await sandbox?.close()
      await stack?.[Symbol.asyncDispose]()
    })
    /** A directory of one test. */
    const folder = (): string => `/workspace/${randomUUID()}`
    const put = async (path: string, content: string | Uint8Array): Promise<void> => {
      expect(await sandbox.uploadFiles([[path, typeof content === 'string' ? bytes(content) : content]])).toEqual([{ path, error: null }])
    }
    const get = async (path: string): Promise<string> =>
      new TextDecoder().decode((await sandbox.downloadFiles([path]))[0]?.content as Uint8Array)

    test('[7.1] runs from initialize to close, once', async () => {
      const another = new BoxofficeSandbox({
        ...options(),
        initialFiles: { '/workspace/src/a.txt': 'one', 'b.bin': Uint8Array.of(0, 255) },
      })
      expect(another.id).not.toBe('')
      expect(another.isRunning).toBe(false)
      await expect(async () => await another.execute('true')).rejects.toMatchObject({ code: 'NOT_INITIALIZED' })
      await another.initialize()
      expect(another.isRunning).toBe(true)
      await expect(another.initialize()).rejects.toMatchObject({ code: 'ALREADY_INITIALIZED' })
      expect(await another.execute('cat src/a.txt; od -An -tu1 b.bin')).toEqual({ output: 'one   0 255\n', exitCode: 0, truncated: false })
      const { sandboxId } = await another.session()
      await another.close()
      expect(another.isRunning).toBe(false)
      const error = await another.uploadFiles([]).catch((thrown: unknown) => thrown)
      expect(error).toBeInstanceOf(BoxofficeError)
      expect(SandboxError.isInstance(error)).toBe(true)
      const left = await connect(stack.brokerUrl, { apiKey: API_KEY }).sessions.list({ state: 'active' })
      expect(left.some(({ sandbox_id }) => sandbox_id === sandboxId)).toBe(false)
    })

    test('[7.1] executes: exact exit codes, both streams in order, a working directory', async () => {
      expect(await sandbox.execute('pwd')).toEqual({ output: '/workspace\n', exitCode: 0, truncated: false })
      expect(await sandbox.execute('echo a; echo b >&2; echo c; exit 42')).toEqual({ output: 'a\nb\nc\n', exitCode: 42, truncated: false })
      expect(await sandbox.execute('no-such-command')).toMatchObject({ exitCode: 127, output: expect.stringContaining('not found') })
      expect((await sandbox.execute('if')).exitCode).not.toBe(0)
      expect(await sandbox.execute('cat <<E\n$((1+1)) ü\nE')).toMatchObject({ output: '2 ü\n', exitCode: 0 })
      expect(await sandbox.execute('nul\0')).toMatchObject({ exitCode: 1, output: expect.stringContaining('Error') })
    })

    test('[7.1] gives the head of output above 16 MiB, and 50,001 lines whole', async () => {
      const whole = await sandbox.execute('awk \'BEGIN { for (i = 1; i <= 50001; i++) printf "%0199d\\n", i }\'')
      expect([whole.output.length, whole.truncated]).toEqual([50_001 * 200, false])
      const cut = await sandbox.execute('head -c 17000000 /dev/zero | tr "\\0" x')
      expect([cut.exitCode, cut.truncated]).toEqual([0, true])
      expect(cut.output.startsWith('xxx')).toBe(true)
    })

    test('[7.1] ends a command that takes too long with 124', async () => {
      const { threadId } = sandbox
      const hasty = await BoxofficeSandbox.create({ ...options(), threadId, timeout: 1 })
      expect(await hasty.execute('echo begun; sleep 600')).toMatchObject({ output: expect.stringContaining('begun'), exitCode: 124 })
      await hasty.close({ keepSandbox: true })
    })

    test('[7.1] uploads and downloads: any bytes and names, parents, results in order', async () => {
      const base = folder()
      const all = Uint8Array.from({ length: 256 }, (_, i) => i)
      const large = randomBytes(10 * 1024 * 1024)
      const files: [string, Uint8Array][] = [
        [`${base}//deep/er/all.bin`, all],
        [`${base}/ein Blatt ü.txt`, bytes('text')],
        [`${base}/empty`, new Uint8Array()],
        [`${base}/large`, large],
      ]
      expect(await sandbox.uploadFiles(files)).toEqual(files.map(([path]) => ({ path, error: null })))
      const back = await sandbox.downloadFiles(files.map(([path]) => path))
      expect(back.map(({ path, error, content }) => [path, error, sha256(content)])).toEqual(
        files.map(([path, content]) => [path, null, sha256(content)]),
      )
      await put(`${base}/empty`, 'no more')
      expect(await get(`${base}/empty`)).toBe('no more')
    })

    test('[7.1] tells of each file why it cannot be, and does the others', async () => {
      const base = folder()
      await put(`${base}/file`, 'content')
      expect(await sandbox.execute(`mkdir ${base}/dir; echo x > ${base}/secret; chmod 0 ${base}/secret; id -u`)).toMatchObject({
        exitCode: 0,
      })
      const paths = [`${base}/missing`, `${base}/dir`, `${base}/file/below`, `${base}/file`, `${base}/nul\0`]
      const errors = (await sandbox.downloadFiles(paths)).map(({ path, error, content }) => [path, error, content === null])
      expect(errors).toEqual([
        [paths[0], 'file_not_found', true],
        [paths[1], 'is_directory', true],
        [paths[2], expect.stringMatching(/^(invalid_path|file_not_found)$/), true],
        [paths[3], null, false],
        [paths[4], 'invalid_path', true],
      ])
      const uploads = await sandbox.uploadFiles([
        [`${base}/dir`, bytes('x')],
        ['/proc/version', bytes('x')],
        [`${base}/file`, bytes('y')],
      ])
      expect(uploads).toEqual([
        { path: `${base}/dir`, error: 'is_directory' },
        { path: '/proc/version', error: null },
        { path: `${base}/file`, error: null },
      ])
    })

    test('[7.1] lists directories, and nothing of one that is missing', async () => {
      const base = folder()
      await put(`${base}/a.txt`, 'abc')
      await put(`${base}/sub/b.txt`, '')
      const { files = [] } = await sandbox.ls(base)
      expect(files.map(({ path, is_dir }) => [path, is_dir]).sort()).toEqual([
        [`${base}/a.txt`, false],
        [`${base}/sub/`, true],
      ])
      expect(files.find(({ is_dir }) => !is_dir)).toMatchObject({ size: 3, modified_at: expect.stringMatching(/^\d{4}-.*Z$/) })
      expect(await sandbox.ls(`${base}/missing`)).toEqual({ files: [] })
    })

    test('[7.1] reads pages of lines, and raw', async () => {
      const path = `${folder()}/it's.txt`
      await put(path, 'one\ntwo\nthree\n')
      expect((await sandbox.read(path)).content).toBe('     1\tone\n     2\ttwo\n     3\tthree\n')
      expect((await sandbox.read(path, 1, 1)).content).toBe('     2\ttwo\n')
      expect((await sandbox.readRaw(path)).data?.content).toBe('one\ntwo\nthree\n')
      expect(await sandbox.read('/nowhere.txt')).toEqual({ error: "File '/nowhere.txt' not found" })
    })

    test('[7.1] writes, edits and deletes', async () => {
      const path = `${folder()}/notes.txt`
      expect(await sandbox.write(path, 'one two two')).toMatchObject({ path })
      expect(await sandbox.edit(path, 'one', '1')).toMatchObject({ path, occurrences: 1 })
      expect(await sandbox.edit(path, 'two', '2')).toMatchObject({ error: expect.stringContaining('Multiple') })
      expect(await sandbox.edit(path, 'two', '2', true)).toMatchObject({ occurrences: 2 })
      expect(await sandbox.edit(path, '1', '1')).toMatchObject({ occurrences: 1 })
      expect(await sandbox.edit(path, 'absent', 'x')).toMatchObject({ error: expect.any(String) })
      expect(await get(path)).toBe('1 2 2')
      expect(await sandbox.delete(path)).toMatchObject({ path })
      expect(await sandbox.delete(path)).toEqual({ error: `Error: '${path}' not found` })
    })

    test('[7.1] makes edits of one file that come at once one after the other', async () => {
      const path = `${folder()}/counter.txt`
      const words = Array.from({ length: 20 }, (_, i) => `word-${i};`)
      await put(path, words.join('\n'))
      await Promise.all(words.map((word) => sandbox.edit(path, word, word.toUpperCase())))
      expect(await get(path)).toBe(words.join('\n').toUpperCase())
    })

    test('[7.1] finds text literally, and files by a pattern relative to their base', async () => {
      const base = folder()
      await put(`${base}/a.py`, 'x = 1\ny = a.b(c)\n')
      await put(`${base}/sub/b.py`, 'axb(c)\n')
      await put(`${base}/sub/c.md`, 'a.b(c)\n')
      expect(await sandbox.grep('a.b(', base, '*.py')).toMatchObject({ matches: [{ path: `${base}/a.py`, line: 2, text: 'y = a.b(c)' }] })
      expect((await sandbox.glob('**/*.py', base)).files?.map(({ path }) => path).sort()).toEqual(['a.py', 'sub/b.py'])
      expect(await sandbox.grep('nothing', `${base}/missing`)).toMatchObject({ matches: [] })
    })

    test('[7.1] keeps files of other absolute paths below /workspace', async () => {
      const id = randomUUID()
      await put(`/${id}/large_tool_results/a.txt`, 'result')
      expect(await sandbox.execute(`cat ${id}/large_tool_results/a.txt`)).toMatchObject({ output: 'result' })
      expect(await sandbox.read(`/${id}/large_tool_results/a.txt`)).toMatchObject({ content: '     1\tresult\n' })
      expect((await sandbox.ls(`/${id}`)).files?.map(({ path }) => path)).toEqual([`/${id}/large_tool_results/`])
      expect((await sandbox.grep('resul', `/${id}`)).matches?.map(({ path }) => path)).toEqual([`/${id}/large_tool_results/a.txt`])
      expect((await sandbox.ls('/')).files?.map(({ path }) => path)).toContain(`/workspace/${id}/`)
      await put(`/tmp/${id}`, 'temporary')
      expect(await sandbox.execute(`cat /tmp/${id}`)).toMatchObject({ output: 'temporary' })
    })

    test('[7.1] throws for a released session and for refused credentials', async () => {
      const doomed = await BoxofficeSandbox.create(options())
      await (await doomed.session()).release()
      await expect(async () => await doomed.execute('true')).rejects.toMatchObject({ code: 'SESSION_RELEASED' })
      const stranger = new BoxofficeSandbox({ ...options(), auth: { apiKey: `bxo_${'x'.repeat(43)}` } })
      await expect(stranger.initialize()).rejects.toMatchObject({ name: 'BoxofficeError', code: 'UNAUTHENTICATED' })
      expect(stranger.isRunning).toBe(false)
    })
  })
}
