import { BoxofficeError, FileEntry, MkdirResponse, MoveResponse } from '@boxoffice/protocol'
import { z } from 'zod'
import type { DataplaneClient, SessionDataplane } from '../../../dataplane/client.ts'
import { listBelow } from '../../facade/list-below.ts'
import { absoluteOf, type FilePath, filePath, queryOf, samePlace } from '../../facade/paths.ts'
import type { Opened } from '../call/access-tokens.ts'
import { type Entry, toEntry } from './entries.ts'

const Path = z.string().default('')
export const PathRequest = z.object({ path: Path })
export const ListDirRequest = z.object({ path: Path, depth: z.coerce.number().int().min(0).max(1000).default(1) })
export const MoveRequest = z.object({ source: Path, destination: Path })

/** E2B's `filesystem.Filesystem` over the dataplane's file routes (contract 7.3). */
export class Filesystem {
  readonly #dataplane: DataplaneClient

  constructor(dataplane: DataplaneClient) {
    this.#dataplane = dataplane
  }

  async stat(opened: Opened, { path }: z.infer<typeof PathRequest>): Promise<{ entry: Entry }> {
    return { entry: await this.#entry(opened, filePath(path)) }
  }

  /** All that is below a directory, `depth` levels deep; 0 is 1. Links are told as links, not as what they point to. */
  async listDir(opened: Opened, { path, depth }: z.infer<typeof ListDirRequest>): Promise<{ entries: Entry[] }> {
    const directory = filePath(path)
    const files = await listBelow(this.#of(opened), directory, Math.max(1, depth))
    return { entries: files.map((file) => toEntry(file, absoluteOf(directory, file.path))) }
  }

  /** FILE_EXISTS where the directory is there. */
  async makeDir(opened: Opened, { path }: z.infer<typeof PathRequest>): Promise<{ entry: Entry }> {
    const directory = filePath(path)
    const { root } = directory.query
    const json = { path: directory.query.path, parents: true }
    const { created } = await this.#of(opened).json({ method: 'POST', path: `/files/mkdir${queryOf({ root })}`, json }, MkdirResponse)
    if (!created) throw new BoxofficeError('FILE_EXISTS', `${directory.absolute} is there already`)
    return { entry: await this.#entry(opened, directory) }
  }

  /** Replaces what is at the destination, as `rename` does. */
  async move(opened: Opened, { source, destination }: z.infer<typeof MoveRequest>): Promise<{ entry: Entry }> {
    const target = filePath(destination)
    const { root, ...paths } = samePlace(filePath(source), target)
    const json = { ...paths, overwrite: true }
    await this.#of(opened).json({ method: 'POST', path: `/files/move${queryOf({ root })}`, json }, MoveResponse)
    return { entry: await this.#entry(opened, target) }
  }

  /** A directory goes with all that is in it; what is not there is fine. */
  async remove(opened: Opened, { path }: z.infer<typeof PathRequest>): Promise<Record<string, never>> {
    const request = { method: 'DELETE', path: `/files${queryOf({ ...filePath(path).query, recursive: true })}` } as const
    try {
      const response = await this.#of(opened).request(request)
      response.resume()
    } catch (thrown) {
      if (!(thrown instanceof BoxofficeError && thrown.code === 'FILE_NOT_FOUND')) throw thrown
    }
    return {}
  }

  async #entry(opened: Opened, { absolute, query }: FilePath): Promise<Entry> {
    return toEntry(await this.#of(opened).json({ method: 'GET', path: `/files/stat${queryOf(query)}` }, FileEntry), absolute)
  }

  #of({ session, actor }: Opened): SessionDataplane {
    return this.#dataplane.session(session.id, actor)
  }
}
