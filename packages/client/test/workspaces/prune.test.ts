import { mkdir, readdir, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createSessionSandbox, pruneSessions, writeSessionFile } from '@boxoffice/client/workspaces'
import { describe, expect } from 'vitest'
import { type Fixture, workspaceTest } from './support/workspace-test.ts'

const age = async (directory: string, hours: number, ...paths: string[]): Promise<void> => {
  const then = new Date(Date.now() - hours * 3_600_000)
  for (const path of [...paths, '']) await utimes(join(directory, path), then, then)
}

const makeSession = async ({ root, options }: Fixture, hours: number, size: number): Promise<string> => {
  const [id] = await createSessionSandbox(options)
  await writeSessionFile(id, 'file', Buffer.alloc(size, 1), options)
  await age(join(root, id), hours, 'file')
  return id
}

describe('prune', () => {
  workspaceTest('[1-73] deletes what was not used for a day, and tells what it gained', async ({ workspace }) => {
    const { root, id, options, told } = workspace
    const old = [await makeSession(workspace, 25, 100_000), await makeSession(workspace, 1000, 1)].sort()
    const young = await makeSession(workspace, 23, 10)
    told.length = 0
    const pruned = await pruneSessions(options)
    expect(pruned).toMatchObject({ deleted_sessions: old, skipped_sessions: [], errors: {}, dry_run: false })
    expect(pruned.reclaimed_bytes).toBeGreaterThanOrEqual(100_001)
    expect((await readdir(root)).sort()).toEqual([id, young].sort())
    expect(told).toEqual(old.map((session_id) => ({ event: 'session.deleted', session_id })))
    expect((await pruneSessions({ ...options, olderThanHours: 22 })).deleted_sessions).toEqual([young])
  })

  workspaceTest('[1-73] a dry run tells the same and deletes nothing', async ({ workspace }) => {
    const { root, options } = workspace
    const old = await makeSession(workspace, 25, 50_000)
    const before = (await readdir(root)).sort()
    const dry = await pruneSessions({ ...options, dryRun: true })
    expect(dry).toMatchObject({ deleted_sessions: [old], dry_run: true })
    expect((await readdir(root)).sort()).toEqual(before)
    expect(await pruneSessions(options)).toEqual({ ...dry, dry_run: false })
  })

  workspaceTest('[1-73] one new file deep in an old workspace keeps it', async ({ workspace }) => {
    const { root, options } = workspace
    const old = await makeSession(workspace, 25, 10)
    await writeSessionFile(old, 'a/b/c', 'new', options)
    await age(join(root, old), 25, 'a/b', 'a')
    expect((await pruneSessions(options)).deleted_sessions).toEqual([])
  })

  workspaceTest('[1-73] leaves alone what is no session', async ({ workspace }) => {
    const { root, options } = workspace
    const uuid = crypto.randomUUID()
    await mkdir(join(root, 'alice'))
    await writeFile(join(root, uuid), 'a file by the name of a session')
    await age(root, 100, 'alice', uuid)
    expect(await pruneSessions({ ...options, olderThanHours: 0 })).toMatchObject({ deleted_sessions: [workspace.id] })
    expect((await readdir(root)).sort()).toEqual(['alice', uuid].sort())
    expect(await pruneSessions({ workspaceRoot: join(root, 'missing') })).toMatchObject({ deleted_sessions: [], errors: {} })
  })
})
