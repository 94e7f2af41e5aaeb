import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import {
  createSessionSandbox,
  deleteSessionPath,
  deleteSessionWorkspace,
  getSessionSandbox,
  listSessionFiles,
  readSessionFile,
  writeSessionFile,
} from '@boxoffice/client/workspaces'
import { describe, expect, test } from 'vitest'
import { workspaceTest } from './support/workspace-test.ts'

const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

workspaceTest('[1-01, 1-02, 1-03, 1-05] a new session is an id, its directory below the root, and a sandbox', async ({ workspace }) => {
  const created = await createSessionSandbox({ workspaceRoot: workspace.root })
  expect(created).toHaveLength(2)
  const [id, sandbox] = created
  expect(id).toMatch(UUID_V4)
  expect(sandbox.sessionId).toBe(id)
  expect(sandbox.workspacePath).toBe(join(workspace.root, id))
  expect(await readdir(join(workspace.root, id))).toEqual([])
  expect(id).not.toBe(workspace.id)
})

workspaceTest('[1-04, 1-06, 1-07] getting a session keeps its files and its id, and makes a missing directory', async ({ workspace }) => {
  const { id, directory, options } = workspace
  await writeFile(join(directory, 'by-the-host'), 'kept')
  expect((await getSessionSandbox(id, options)).sessionId).toBe(id)
  expect(await readFile(join(directory, 'by-the-host'), 'utf8')).toBe('kept')
  const missing = crypto.randomUUID()
  expect((await getSessionSandbox(missing, options)).sessionId).toBe(missing)
  expect(existsSync(join(workspace.root, missing))).toBe(true)
  expect((await readdir(workspace.root)).sort()).toEqual([id, missing].sort())
})

const functions: Record<string, (id: string, workspaceRoot: string, allowNonUuid?: boolean) => Promise<unknown>> = {
  getSessionSandbox: (id, workspaceRoot, allowNonUuid) => getSessionSandbox(id, { workspaceRoot, allowNonUuid }),
  deleteSessionWorkspace: (id, workspaceRoot, allowNonUuid) => deleteSessionWorkspace(id, { workspaceRoot, allowNonUuid }),
  listSessionFiles: (id, workspaceRoot, allowNonUuid) => listSessionFiles(id, { workspaceRoot, allowNonUuid }),
  readSessionFile: (id, workspaceRoot, allowNonUuid) => readSessionFile(id, 'a', { workspaceRoot, allowNonUuid }),
  writeSessionFile: (id, workspaceRoot, allowNonUuid) => writeSessionFile(id, 'a', 'x', { workspaceRoot, allowNonUuid }),
  deleteSessionPath: (id, workspaceRoot, allowNonUuid) => deleteSessionPath(id, 'a', { workspaceRoot, allowNonUuid }),
}
const BAD_IDS = ['', '.', '..', 'a/b', '/', '/etc', 'a\\b', '..\\x', '../../../tmp', 'a\0b', `../${crypto.randomUUID()}`]

describe.each(Object.entries(functions))('%s', (_, call) => {
  workspaceTest('[1-09, 1-25, 1-72] refuses ids that are paths before anything is touched', async ({ workspace }) => {
    const parent = join(workspace.root, '..')
    await mkdir(join(parent, 'canary'))
    const before = await readdir(parent, { recursive: true })
    for (const id of BAD_IDS)
      for (const allowNonUuid of [false, true])
        await expect(call(id, workspace.root, allowNonUuid)).rejects.toThrow(`Invalid session_id '${id}': must not contain path separators`)
    await expect(call('..', join(workspace.root, 'not-made'))).rejects.toMatchObject({ code: 'INVALID_PATH', status: 400 })
    expect(await readdir(parent, { recursive: true })).toEqual(before)
  })

  workspaceTest('[1-10] takes UUIDs only, unless told otherwise', async ({ workspace }) => {
    for (const id of ['alice', workspace.id.toUpperCase(), '6ba7b810-9dad-11d1-80b4-00c04fd430c8', 'a'.repeat(300)])
      await expect(call(id, workspace.root)).rejects.toThrow(`Invalid session_id '${id}'`)
    await writeSessionFile('alice', 'a', 'x', { workspaceRoot: workspace.root, allowNonUuid: true })
    await expect(call('alice', workspace.root, true)).resolves.not.toThrow()
    await expect(call('a'.repeat(300), workspace.root, true)).rejects.toThrow('at most 128 characters')
  })
})

workspaceTest('[1-24, 1-26, 1-27] deleting takes everything, twice is fine, and the session begins anew', async ({ workspace }) => {
  const { id, directory, options } = workspace
  await writeSessionFile(id, 'a/b/c/d', 'x', options)
  await deleteSessionWorkspace(id, options)
  expect(existsSync(directory)).toBe(false)
  await deleteSessionWorkspace(id, options)
  expect(await listSessionFiles(id, options)).toEqual([])
  await getSessionSandbox(id, options)
  expect(await listSessionFiles(id, options)).toEqual([])
  expect(basename(directory)).toBe(id)
})

workspaceTest(
  '[1-05, 1-11] without a root it is `workspace` below the current directory, for plain sandboxes itself',
  async ({ workspace }) => {
    const program = `
    import { createSandbox, createSessionSandbox } from '${import.meta.resolve('@boxoffice/client/workspaces')}'
    const [id, session] = await createSessionSandbox()
    console.log(JSON.stringify([id, session.workspacePath, (await createSandbox()).workspacePath]))`
    const directory = join(workspace.root, '..')
    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program], { cwd: directory })
    const [id, ofSession, plain] = JSON.parse(stdout) as string[]
    expect([ofSession, plain]).toEqual([join(directory, 'workspace', id ?? ''), join(directory, 'workspace')])
  },
)

test('[1-12] the seven functions, by both of their names, and what was there before', async () => {
  const exported = Object.keys(await import('@boxoffice/client/workspaces'))
  const names = [
    ...['createSessionSandbox', 'getSessionSandbox', 'deleteSessionWorkspace'],
    ...['listSessionFiles', 'readSessionFile', 'writeSessionFile', 'deleteSessionPath'],
  ]
  expect(names).toHaveLength(7)
  const inSnakeCase = names.map((name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`))
  expect(exported).toEqual(
    expect.arrayContaining([...names, ...inSnakeCase, 'createSandbox', 'create_sandbox', 'pruneSessions', 'prune_sessions']),
  )
  expect(Object.keys(await import('@boxoffice/client'))).toEqual(
    expect.arrayContaining(['connect', 'BoxofficeError', 'ConnectionError', 'ExecError', 'GapError', 'isCode', 'toA2A', 'A2A_SESSION']),
  )
})
