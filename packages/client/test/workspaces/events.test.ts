import {
  createSessionSandbox,
  deleteSessionPath,
  deleteSessionWorkspace,
  getSessionSandbox,
  listSessionFiles,
  readSessionFile,
  writeSessionFile,
} from '@boxoffice/client/workspaces'
import { expect } from 'vitest'
import { workspaceTest } from './support/workspace-test.ts'

workspaceTest('[1-60] each function tells of what it did, with the names of the seed', async ({ workspace }) => {
  const { root, options, told } = workspace
  const [id] = await createSessionSandbox(options)
  await getSessionSandbox(id, options)
  await writeSessionFile(id, 'a/b.txt', 'Hello 世界', options)
  await readSessionFile(id, 'a/b.txt', options)
  await listSessionFiles(id, { ...options, pattern: '*.txt' })
  await deleteSessionPath(id, 'a/b.txt', options)
  await deleteSessionWorkspace(id, options)
  expect(told).toEqual([
    { event: 'session.created', session_id: id, workspace_path: `${root}/${id}` },
    { event: 'session.retrieved', session_id: id, workspace_path: `${root}/${id}` },
    { event: 'session.file.write', session_id: id, path: 'a/b.txt', size_bytes: 12 },
    { event: 'session.file.read', session_id: id, path: 'a/b.txt', size_bytes: 12 },
    { event: 'session.file.list', session_id: id, pattern: '*.txt', count: 1 },
    { event: 'session.file.delete', session_id: id, path: 'a/b.txt' },
    { event: 'session.deleted', session_id: id },
  ])
})

workspaceTest('[1-62] what fails tells of no success, and what is refused says so', async ({ workspace }) => {
  const { id, options, told } = workspace
  await expect(readSessionFile(id, 'missing', options)).rejects.toThrow()
  await expect(deleteSessionPath(id, 'missing', options)).rejects.toThrow()
  await writeSessionFile(id, 'there', 'x', { ...options, logger: undefined })
  await expect(writeSessionFile(id, 'there', 'x', { ...options, overwrite: false })).rejects.toThrow()
  expect(told).toEqual([])
  await expect(readSessionFile(id, '../../../etc/passwd', options)).rejects.toThrow()
  await expect(deleteSessionWorkspace('../x', options)).rejects.toThrow()
  await expect(getSessionSandbox('..', options)).rejects.toThrow()
  await expect(listSessionFiles('a/b', options)).rejects.toThrow()
  expect(told.map(({ event }) => event)).toEqual(Array(4).fill('session.security.refused'))
  expect(told[0]).toMatchObject({ session_id: id, path: '../../../etc/passwd' })
})

workspaceTest('[1-63] nothing needs a logger', async ({ workspace }) => {
  const options = { workspaceRoot: workspace.root }
  const [id] = await createSessionSandbox(options)
  await getSessionSandbox(id, options)
  await writeSessionFile(id, 'a', 'x', options)
  await readSessionFile(id, 'a', options)
  await expect(readSessionFile(id, '../x', options)).rejects.toThrow('escapes')
  await listSessionFiles(id, options)
  await deleteSessionPath(id, 'a', options)
  await deleteSessionWorkspace(id, options)
})
