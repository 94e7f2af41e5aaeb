import { type BoxofficeError, connect, type Session } from '@boxoffice/client'
import {
  createSessionSandbox,
  deleteSessionPath,
  getSessionSandbox,
  listSessionFiles,
  readSessionFile,
  type SessionSandboxOptions,
  writeSessionFile,
} from '@boxoffice/client/workspaces'
import { describe, expect, test } from 'vitest'
import { API_KEY, type Stack } from '../support/stack.ts'

const threadOf = async (stack: Stack, id: string): Promise<string> => {
  const client = connect(stack.brokerUrl, { apiKey: API_KEY })
  const found = (await client.sessions.list()).find(({ scope }) => scope.id.startsWith(`workspaces/${id}/`))
  return found?.scope.id ?? ''
}

/** The functions for a session's files, and the routes for the files of its sandbox; `at`: what they are asked of. */
export const sameOverHttp = (at: () => { stack: Stack; options: SessionSandboxOptions & { workspaceRoot: string } }): void => {
  describe('the same over HTTP', () => {
    const refusal = async (work: Promise<unknown>): Promise<unknown> =>
      await work.then(
        () => 'done',
        ({ code, status }: BoxofficeError) => `${status} ${code}`,
      )

    test('[1-42, 1-46, 1-47, 1-49, 1-50, 1-51, 1-52, 1-53, 1-54, 1-55] both answer alike', async () => {
      const { stack, options } = at()
      const [id] = await createSessionSandbox(options)
      const made = await (await getSessionSandbox(id, { ...options, runtime: 'shell' })).execute(
        'mkdir -p d/e empty; echo x > d/e/f.json; echo {} > a.json; ln -s /etc/hostname out; ln -s ../../x up; ln -s a.json in; mkfifo fifo; : > zero',
      )
      expect(made).toMatchObject({ success: true, stderr: '' })
      const session: Session = await connect(stack.brokerUrl, { apiKey: API_KEY }).session({ threadId: await threadOf(stack, id) })
      const { files } = session
      const ways = {
        functions: {
          list: (pattern?: string) => listSessionFiles(id, { ...options, pattern }),
          read: async (path: string) => Buffer.from(await readSessionFile(id, path, options)).toString(),
          write: (path: string, overwrite: boolean): Promise<unknown> => writeSessionFile(id, path, 'x\n', { ...options, overwrite }),
          remove: (path: string, recursive: boolean) => deleteSessionPath(id, path, { ...options, recursive }),
        },
        http: {
          list: async (pattern?: string) => (await files.list('.', { pattern })).map(({ path }) => path),
          read: (path: string) => files.text(path),
          write: (path: string, overwrite: boolean): Promise<unknown> => files.upload(path, 'x\n', { overwrite }),
          remove: (path: string, recursive: boolean) => files.delete(path, { recursive }),
        },
      }
      const outcomes = async (way: (typeof ways)['http']): Promise<Record<string, unknown>> => {
        const told: Record<string, unknown> = {}
        for (const pattern of [undefined, '*.json', '**/*.json', 'd/*', '*.none']) told[`list ${pattern}`] = await way.list(pattern)
        for (const path of ['a.json', '/workspace/a.json', '/app/d/e/f.json', 'in', './d//e/../e/f.json'])
          told[`read ${path}`] = await way.read(path)
        const bad = [
          'no',
          'd',
          '.',
          '../x',
          'd/../../x',
          '/etc/passwd',
          '/tmp/evil',
          'out',
          'up',
          'fifo',
          'a.json/below',
          'a\0b',
          'a'.repeat(300),
        ]
        for (const path of bad) {
          told[`read ${path}`] = await refusal(way.read(path))
          if (path !== 'no') told[`write ${path}`] = await refusal(way.write(path, true))
        }
        for (const path of ['a.json', 'zero', 'd']) told[`create ${path}`] = await refusal(way.write(path, false))
        for (const path of ['', '.', '/workspace', '..', 'no', 'd', '/etc']) told[`remove ${path}`] = await refusal(way.remove(path, false))
        for (const path of ['', '/app', '../..', 'no']) told[`remove all ${path}`] = await refusal(way.remove(path, true))
        for (const path of ['made/by/this', 'out2']) {
          told[`write ${path}`] = await refusal(way.write(path, false))
          told[`remove ${path}`] = await refusal(way.remove(path, false))
        }
        told['remove made'] = await refusal(way.remove('made', true))
        return told
      }
      const [byFunctions, byHttp] = [await outcomes(ways.functions), await outcomes(ways.http)]
      expect(byFunctions).toEqual(byHttp)
      expect(byFunctions).toMatchObject({
        'list undefined': ['a.json', 'd/e/f.json', 'zero'],
        'read no': '404 FILE_NOT_FOUND',
        'read d': '400 IS_DIRECTORY',
        'read ../x': '400 INVALID_PATH',
        'read /etc/passwd': '400 INVALID_PATH',
        'write out': '400 INVALID_PATH',
        'read fifo': '400 NOT_A_FILE',
        'create zero': '409 FILE_EXISTS',
        'remove d': '400 DIRECTORY_NOT_EMPTY',
        'remove .': '400 INVALID_PATH',
        'remove no': '404 FILE_NOT_FOUND',
      })
    })
  })
}
