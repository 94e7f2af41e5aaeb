import { once } from 'node:events'
import { link, mkdir, readdir, readFile, readlink, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { isCode } from '@boxoffice/client'
import {
  deleteSessionPath,
  deleteSessionWorkspace,
  listSessionFiles,
  readSessionFile,
  writeSessionFile,
} from '@boxoffice/client/workspaces'
import { describe, expect } from 'vitest'
import { type Fixture, workspaceTest } from './support/workspace-test.ts'

const TRAVERSAL = [
  ...['..', '../x', '../../../etc/passwd', 'a/../../x', './../x', 'a/b/../../../x'],
  ...['..\\x', '..\\..\\etc\\passwd', 'a\\..\\..\\x', '/workspace/../x', '/app/../../etc/passwd', '\\workspace\\..\\x'],
]
const ABSOLUTE = ['/etc/passwd', '/tmp/evil', '/', '//etc/passwd', '/workspacex/f', '/application', '\\etc\\passwd', '/proc/self/environ']

const operations: Record<string, (path: string, { id, options }: Fixture) => Promise<unknown>> = {
  reading: (path, { id, options }) => readSessionFile(id, path, options),
  writing: (path, { id, options }) => writeSessionFile(id, path, 'evil', options),
  deleting: (path, { id, options }) => deleteSessionPath(id, path, { ...options, recursive: true }),
}

describe.each(Object.entries(operations))('%s', (_, operate) => {
  workspaceTest('[1-53, 1-57, 1-62, 1-70, 1-72] paths that climb out are refused, also with backslashes', async ({ workspace }) => {
    for (const path of TRAVERSAL)
      await expect(operate(path, workspace)).rejects.toMatchObject({
        ...{ code: 'INVALID_PATH', status: 400, message: `Path '${path}' escapes session workspace` },
      })
    expect(workspace.told.map(({ event, path }) => [event, path])).toEqual(TRAVERSAL.map((path) => ['session.security.refused', path]))
  })

  workspaceTest('[1-54, 1-72] absolute paths are refused, but for where the guest has its workspace', async ({ workspace }) => {
    for (const path of ABSOLUTE) await expect(operate(path, workspace)).rejects.toThrow(`Path '${path}' escapes session workspace`)
    for (const path of ['/workspace/a/f', '/app/a/f', '\\app\\a\\f']) {
      await writeSessionFile(workspace.id, 'a/f', 'x', workspace.options)
      await operate(path, workspace)
    }
    await expect(operate('a\0b', workspace)).rejects.toMatchObject({ code: 'INVALID_PATH' })
    await expect(operate('a'.repeat(5000), workspace)).rejects.toMatchObject({ code: 'INVALID_PATH' })
  })
})

workspaceTest('[1-57] a backslash is a slash', async ({ workspace }) => {
  const { id, options } = workspace
  await writeSessionFile(id, 'data\\sub/f', 'x', options)
  expect(await listSessionFiles(id, options)).toEqual(['data/sub/f'])
  expect(await listSessionFiles(id, { ...options, pattern: 'data\\**' })).toEqual(['data/sub/f'])
})

workspaceTest('[1-55, 1-72] links that lead outside are refused, and deleted without what they point to', async ({ workspace }) => {
  const { id, root, directory, options } = workspace
  const outside = join(root, '..', 'outside')
  await mkdir(outside)
  await writeFile(join(outside, 'canary'), 'canary')
  const links = {
    file: join(outside, 'canary'),
    missing: join(outside, 'new'),
    folder: outside,
    climbing: '../../outside',
    proc: '/proc/self/root',
  }
  for (const [name, target] of Object.entries(links)) await symlink(target, join(directory, name))
  for (const path of ['file', 'missing', 'folder/canary', 'climbing/canary', 'proc/etc/passwd']) {
    await expect(readSessionFile(id, path, options)).rejects.toMatchObject({ code: 'INVALID_PATH' })
    await expect(writeSessionFile(id, path, 'evil', options)).rejects.toMatchObject({ code: 'INVALID_PATH' })
  }
  await expect(deleteSessionPath(id, 'folder/canary', options)).rejects.toMatchObject({ code: 'INVALID_PATH' })
  expect(await listSessionFiles(id, options)).toEqual([])
  for (const name of ['file', 'folder']) await deleteSessionPath(id, name, { ...options, recursive: true })
  await expect(readlink(join(directory, 'folder'))).rejects.toThrow('ENOENT')
  await deleteSessionWorkspace(id, options)
  expect(await readdir(outside)).toEqual(['canary'])
  expect(await readFile(join(outside, 'canary'), 'utf8')).toBe('canary')
})

/** Swaps, as a guest would, until it was done often enough; then says how often. */
const SWAPPER = `
const { parentPort, workerData: { directory, outside, swaps } } = require('node:worker_threads')
const fs = require('node:fs')
const at = (name) => directory + '/' + name
// A writer may make the folder in the moment in which there is none.
const put = (place) => {
  for (;;) {
    try {
      fs.rmSync(at('folder'), { recursive: true, force: true })
      return place()
    } catch (error) { if (!['EEXIST', 'ENOTEMPTY', 'EISDIR'].includes(error.code)) throw error }
  }
}
for (let n = 0; n < swaps; n += 2) {
  const toLink = n % 4 === 0
  // The file is a link to the canary, or a file.
  if (toLink) fs.symlinkSync(outside + '/canary', at('next'))
  else fs.writeFileSync(at('next'), 'inside')
  fs.renameSync(at('next'), at('file'))
  // The folder is a link to the outside, or a folder.
  if (toLink) {
    fs.renameSync(at('folder'), at('aside'))
    put(() => fs.symlinkSync(outside, at('folder')))
  } else put(() => fs.renameSync(at('aside'), at('folder')))
}
parentPort.postMessage(swaps)
`

workspaceTest(
  '[1-56] ten thousand swaps of links while files are read, written and deleted never reach the canary',
  async ({ workspace }) => {
    const { id, root, directory, options } = workspace
    const quiet = { workspaceRoot: options.workspaceRoot }
    const outside = join(root, '..', 'outside')
    await mkdir(outside)
    await mkdir(join(directory, 'folder'))
    await writeFile(join(outside, 'canary'), 'canary')
    await writeFile(join(directory, 'folder', 'canary'), 'inside')
    const before = await stat(join(outside, 'canary'))
    const worker = new Worker(SWAPPER, { eval: true, workerData: { directory, outside, swaps: 10_000 } })
    let over = false
    const done = once(worker, 'message').finally(() => {
      over = true
    })
    const counts = { inside: 0, refused: 0, written: 0 }
    const note = async (work: Promise<unknown>): Promise<void> => {
      const outcome = await work.catch((error: unknown) => error)
      if (Buffer.isBuffer(outcome)) {
        // What was written below is read here, too.
        expect(['inside', 'by the host']).toContain(outcome.toString())
        counts.inside++
      } else if (outcome === undefined) counts.written++
      else if (isCode(outcome, 'INVALID_PATH')) counts.refused++
      // A name is missing for a moment, or is a folder when a file was expected.
      else expect(['FILE_NOT_FOUND', 'NOT_A_DIRECTORY', 'NOT_A_FILE']).toContain((outcome as { code?: string }).code)
    }
    while (!over) {
      await Promise.all([
        note(readSessionFile(id, 'file', quiet)),
        note(readSessionFile(id, 'folder/canary', quiet)),
        note(writeSessionFile(id, 'file', 'by the host', quiet)),
        note(writeSessionFile(id, 'folder/canary', 'by the host', quiet)),
        note(deleteSessionPath(id, 'folder/never', quiet)),
        listSessionFiles(id, quiet).then((files) => expect(files).not.toContain('aside/escaped')),
      ])
      await new Promise((resolve) => setImmediate(resolve))
    }
    expect(await done).toEqual([10_000])
    await worker.terminate()
    const after = await stat(join(outside, 'canary'))
    expect([after.ino, after.mtimeMs, after.uid]).toEqual([before.ino, before.mtimeMs, before.uid])
    expect(await readdir(outside)).toEqual(['canary'])
    expect(await readFile(join(outside, 'canary'), 'utf8')).toBe('canary')
    // Both sides were met, else it was no race.
    expect(Math.min(counts.inside, counts.refused, counts.written)).toBeGreaterThan(0)
  },
)

workspaceTest('[1-24, 1-56] deleting a workspace whose folders become links leaves alone what they lead to', async ({ workspace }) => {
  const { id, root, directory, options } = workspace
  const outside = join(root, '..', 'outside')
  await mkdir(join(outside, 'deep'), { recursive: true })
  await writeFile(join(outside, 'canary'), 'canary')
  await link(join(outside, 'canary'), join(directory, 'second-name'))
  for (let n = 0; n < 20; n++) {
    await mkdir(join(directory, `${n}/a/b`), { recursive: true })
    await symlink(outside, join(directory, `${n}/a/b/out`))
  }
  await symlink(outside, join(directory, 'out'))
  await deleteSessionWorkspace(id, options)
  await expect(stat(directory)).rejects.toThrow('ENOENT')
  expect(await readFile(join(outside, 'canary'), 'utf8')).toBe('canary')
})
