import { execFileSync } from 'node:child_process'
import { chmod, mkdir, readFile, stat, symlink, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  createSessionSandbox,
  deleteSessionPath,
  deleteSessionWorkspace,
  listSessionFiles,
  readSessionFile,
  writeSessionFile,
} from '@boxoffice/client/workspaces'
import { describe, expect } from 'vitest'
import { workspaceTest } from './support/workspace-test.ts'

describe('listing', () => {
  workspaceTest('[1-40, 1-41, 1-43] tells files only, relative, with slashes, recursive and sorted', async ({ workspace }) => {
    const { id, directory, options } = workspace
    expect(await listSessionFiles(id, options)).toEqual([])
    await writeSessionFile(id, 'sub/deep/b.txt', 'b', options)
    await writeSessionFile(id, 'a.txt', 'a', options)
    await mkdir(join(directory, 'empty'))
    expect(await listSessionFiles(id, options)).toEqual(['a.txt', 'sub/deep/b.txt'])
  })

  workspaceTest('[1-42, 1-58] patterns without a slash hold at any depth', async ({ workspace }) => {
    const { id, options } = workspace
    for (const path of ['a.json', 'x/b.json', 'x/y/c.json', 'x/d.py', 'e.py', '.hidden.json']) await writeSessionFile(id, path, '', options)
    const list = (pattern: string) => listSessionFiles(id, { ...options, pattern })
    expect(await list('*.json')).toEqual(['.hidden.json', 'a.json', 'x/b.json', 'x/y/c.json'])
    expect(await list('**/*.py')).toEqual(['e.py', 'x/d.py'])
    expect(await list('x/*')).toEqual(['x/b.json', 'x/d.py'])
    expect(await list('*.none')).toEqual([])
    expect(await list('**/*')).toHaveLength(6)
  })

  workspaceTest('[1-44] costs what the session holds, not what its thousand siblings do', async ({ workspace }) => {
    const { id, root, options } = workspace
    for (let n = 0; n < 20; n++) await writeSessionFile(id, `f${n}`, 'x', options)
    const median = async (): Promise<number> => {
      const times: number[] = []
      for (let n = 0; n < 101; n++) {
        const start = performance.now()
        await listSessionFiles(id, options)
        times.push(performance.now() - start)
      }
      return times.sort((a, b) => a - b)[50] ?? 0
    }
    await median()
    const alone = await median()
    await Promise.all(
      Array.from({ length: 1000 }, async () => {
        const directory = join(root, crypto.randomUUID())
        await mkdir(directory)
        await writeFile(join(directory, 'file'), 'x')
      }),
    )
    // The better of a few: another program on this machine must not decide.
    const among = Math.min(await median(), await median(), await median())
    expect(among).toBeLessThanOrEqual(2 * alone + 0.2)
  })
})

describe('reading and writing', () => {
  workspaceTest('[1-06, 1-45] gives the exact bytes, large files and empty ones too', async ({ workspace }) => {
    const { id, directory, options } = workspace
    const all = Uint8Array.from({ length: 256 }, (_, byte) => byte)
    const large = Buffer.alloc(5_000_001, all)
    for (const [path, bytes] of [
      ['all', all],
      ['large', large],
      ['empty', new Uint8Array()],
    ] as const) {
      await writeSessionFile(id, path, bytes, options)
      expect(Buffer.compare(await readFile(join(directory, path)), bytes)).toBe(0)
      expect(Buffer.compare(await readSessionFile(id, path, options), bytes)).toBe(0)
    }
  })

  workspaceTest('[1-48] makes parents and writes strings as UTF-8', async ({ workspace }) => {
    const { id, directory, options } = workspace
    await writeSessionFile(id, 'a/b/hello.txt', 'Hello 世界', options)
    expect((await readSessionFile(id, 'a/b/hello.txt', options)).toString('utf8')).toBe('Hello 世界')
    const [file, folder, root] = await Promise.all(['a/b/hello.txt', 'a/b', ''].map((path) => stat(join(directory, path))))
    expect([file?.uid, folder?.uid]).toEqual([root?.uid, root?.uid])
  })

  workspaceTest('[1-46, 1-47] a missing file and a directory are errors in the words of the caller', async ({ workspace }) => {
    const { id, root, options } = workspace
    await writeSessionFile(id, 'dir/file', 'x', options)
    const missing = await readSessionFile(id, 'no/such.txt', options).catch((error: Error) => error)
    expect(missing).toMatchObject({ code: 'FILE_NOT_FOUND', status: 404, message: "File 'no/such.txt' does not exist" })
    expect(JSON.stringify([String(missing), missing])).not.toContain(root)
    await expect(readSessionFile(id, 'dir', options)).rejects.toMatchObject({ code: 'IS_DIRECTORY', status: 400 })
    await expect(readSessionFile(id, '', options)).rejects.toMatchObject({ code: 'IS_DIRECTORY' })
    await expect(writeSessionFile(id, 'dir', 'x', options)).rejects.toMatchObject({ code: 'IS_DIRECTORY' })
    await expect(writeSessionFile(id, 'dir/file/below', 'x', options)).rejects.toMatchObject({ code: 'NOT_A_DIRECTORY' })
    await expect(readSessionFile(crypto.randomUUID(), 'a', options)).rejects.toMatchObject({ code: 'FILE_NOT_FOUND' })
  })

  workspaceTest('[1-46] special files are refused and not waited for', async ({ workspace }) => {
    const { id, directory, options } = workspace
    execFileSync('mkfifo', [join(directory, 'fifo')])
    await expect(readSessionFile(id, 'fifo', options)).rejects.toMatchObject({ code: 'NOT_A_FILE' })
  })

  workspaceTest('[1-49, 1-58] without overwrite every file that is there is kept, an empty one too', async ({ workspace }) => {
    const { id, options } = workspace
    for (const content of ['', 'old']) {
      await writeSessionFile(id, 'f', content, options)
      const refused = writeSessionFile(id, 'f', Buffer.alloc(3_000_000), { ...options, overwrite: false })
      await expect(refused).rejects.toMatchObject({ code: 'FILE_EXISTS', status: 409 })
      expect((await readSessionFile(id, 'f', options)).toString()).toBe(content)
    }
    await writeSessionFile(id, 'f', 'new', options)
    expect((await readSessionFile(id, 'f', options)).toString()).toBe('new')
  })

  workspaceTest('[1-49] of many writers without overwrite one wins', async ({ workspace }) => {
    const { id, options } = workspace
    const tries = Array.from({ length: 50 }, (_, n) => writeSessionFile(id, 'f', `writer ${n}`, { ...options, overwrite: false }))
    const won = (await Promise.allSettled(tries)).flatMap(({ status }, n) => (status === 'fulfilled' ? [n] : []))
    expect(won).toHaveLength(1)
    expect((await readSessionFile(id, 'f', options)).toString()).toBe(`writer ${won[0]}`)
  })
})

describe('deleting', () => {
  workspaceTest('[1-50, 1-51, 1-58] files and empty directories go, full ones only when told', async ({ workspace }) => {
    const { id, directory, options } = workspace
    const gone = (path: string) => expect(stat(join(directory, path))).rejects.toThrow('ENOENT')
    await writeSessionFile(id, 'file', 'x', options)
    await writeSessionFile(id, 'full/deep/file', 'x', options)
    await Promise.all(['empty', 'empty2'].map((name) => mkdir(join(directory, name))))
    await deleteSessionPath(id, 'file', options)
    await gone('file')
    await deleteSessionPath(id, 'empty', options)
    await gone('empty')
    await deleteSessionPath(id, 'empty2', { ...options, recursive: true })
    await gone('empty2')
    await expect(deleteSessionPath(id, 'full', options)).rejects.toMatchObject({
      code: 'DIRECTORY_NOT_EMPTY',
      message: "Cannot delete directory 'full' without recursive=True",
    })
    expect(await listSessionFiles(id, options)).toEqual(['full/deep/file'])
    await deleteSessionPath(id, 'full', { ...options, recursive: true })
    await gone('full')
    for (const recursive of [false, true])
      await expect(deleteSessionPath(id, 'no', { ...options, recursive })).rejects.toMatchObject({ code: 'FILE_NOT_FOUND', status: 404 })
  })

  workspaceTest('[1-52] no path deletes the workspace itself', async ({ workspace }) => {
    const { id, options } = workspace
    await writeSessionFile(id, 'kept', 'x', options)
    for (const path of ['', '.', './', 'a/..', '/workspace', '/app/', '//workspace//.'])
      await expect(deleteSessionPath(id, path, { ...options, recursive: true })).rejects.toMatchObject({ code: 'INVALID_PATH' })
    expect(await listSessionFiles(id, options)).toEqual(['kept'])
  })

  workspaceTest('[1-26] what cannot be deleted is an error', async ({ workspace }) => {
    const { id, directory, options } = workspace
    await mkdir(join(directory, 'held'))
    await writeFile(join(directory, 'held', 'file'), 'x')
    const isRoot = process.getuid?.() === 0
    // A mount point is what not even root can remove.
    if (isRoot) execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', join(directory, 'held')])
    else await chmod(join(directory, 'held'), 0o500)
    try {
      await expect(deleteSessionWorkspace(id, options)).rejects.toMatchObject({ name: 'BoxofficeError' })
      expect(workspace.told.filter(({ event }) => event === 'session.deleted')).toEqual([])
    } finally {
      if (isRoot) execFileSync('umount', [join(directory, 'held')])
      else await chmod(join(directory, 'held'), 0o700)
    }
    await deleteSessionWorkspace(id, options)
  })
})

workspaceTest('[1-08] what one session holds another has not', async ({ workspace }) => {
  const { id, options } = workspace
  const [other] = await createSessionSandbox(options)
  await writeSessionFile(id, 'mine', 'x', options)
  expect(await listSessionFiles(other, options)).toEqual([])
  await expect(readSessionFile(other, 'mine', options)).rejects.toMatchObject({ code: 'FILE_NOT_FOUND' })
})

workspaceTest('[1-55] links are listed by nobody, and followed inside', async ({ workspace }) => {
  const { id, directory, options } = workspace
  await writeSessionFile(id, 'file', 'inside', options)
  await symlink('file', join(directory, 'relative'))
  await symlink('/workspace/file', join(directory, 'of-the-guest'))
  await utimes(directory, 1, 1)
  expect(await listSessionFiles(id, options)).toEqual(['file'])
  for (const path of ['relative', 'of-the-guest']) expect((await readSessionFile(id, path, options)).toString()).toBe('inside')
})
