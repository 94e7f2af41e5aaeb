import { posix } from 'node:path'
import { BoxofficeError, FileEntry, MkdirResponse } from '@boxoffice/protocol'
import { z } from 'zod'
import type { DataplaneRequest, SessionDataplane } from '../../dataplane/client.ts'
import { validate } from '../../http/body.ts'
import { listBelow } from '../facade/list-below.ts'
import { absoluteOf, type FilePath, filePath, queryOf, samePlace } from '../facade/paths.ts'

const MoveRequest = z.object({ src: z.string().min(1), dest: z.string().min(1), overwrite: z.boolean().nullish() })
/** Deeper than any path is. */
const ANY_DEPTH = 256

type Flags = { [name: string]: boolean }

/** The entries of a directory, by their paths below it. Links are told as files. */
export async function list(dataplane: SessionDataplane, directory: FilePath, recursive: boolean, extension: string) {
  const entries = await listBelow(dataplane, directory, recursive ? ANY_DEPTH : 1)
  const named = entries.map((entry) => ({ ...entry, name: posix.relative(directory.absolute, absoluteOf(directory, entry.path)) }))
  const wanted = extension === '' ? named : named.filter(({ type, name }) => type !== 'directory' && name.endsWith(extension))
  return wanted.map(({ name, size, type, mtime }) => ({
    name,
    size,
    is_dir: type === 'directory',
    type: typeOf(type),
    mod_time: mtime,
  }))
}

/** What a path points to. Nothing here keeps when a file was made: that is told as when it was changed. */
export async function stat(dataplane: SessionDataplane, { absolute, query }: FilePath) {
  const path = `/files/stat${queryOf({ ...query, follow: true })}`
  const { type, size, mtime } = await dataplane.json({ method: 'GET', path }, FileEntry)
  return { name: posix.basename(absolute), path: absolute, type: typeOf(type), size, created_at: mtime, modified_at: mtime }
}

/** FILE_EXISTS where it is there and its parents are not to be made. */
export async function makeDirectory(dataplane: SessionDataplane, { absolute, query }: FilePath, recursive: boolean): Promise<void> {
  const json = { path: query.path, parents: recursive }
  const { created } = await dataplane.json({ method: 'POST', path: `/files/mkdir${rootOf(query)}`, json }, MkdirResponse)
  if (!created && !recursive) throw new BoxofficeError('FILE_EXISTS', `${absolute} is there already`)
}

/** FILE_EXISTS where something is at the destination that is not to be replaced. */
export async function move(dataplane: SessionDataplane, body: unknown): Promise<void> {
  const { src, dest, overwrite } = validate(MoveRequest, body)
  const { root, ...paths } = samePlace(filePath(src), filePath(dest))
  await dataplane.done({ method: 'POST', path: `/files/move${rootOf({ root })}`, json: { ...paths, overwrite: overwrite === true } })
}

/** `force`: what is not there is fine. */
export async function remove(dataplane: SessionDataplane, { query }: FilePath, { recursive, force }: Flags): Promise<void> {
  try {
    await dataplane.done({ method: 'DELETE', path: `/files${queryOf({ ...query, recursive })}` })
  } catch (thrown) {
    if (!(force && thrown instanceof BoxofficeError && thrown.code === 'FILE_NOT_FOUND')) throw thrown
  }
}

/** The request that writes a whole file, parents included. */
export const writing = ({ query }: FilePath, overwrite: boolean): Pick<DataplaneRequest, 'method' | 'path'> => ({
  method: 'POST',
  path: `/files/upload${queryOf({ ...query, overwrite })}`,
})

const rootOf = ({ root }: { root?: 'sandbox' | undefined }): string => queryOf({ root })
const typeOf = (type: FileEntry['type']): 'file' | 'directory' => (type === 'directory' ? 'directory' : 'file')
