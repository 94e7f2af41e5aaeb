import { fileRootOf } from '@boxoffice/kit/file-root'
import { isCode } from '../base/errors.ts'
import type { Session } from '../session.ts'

export type ComputeFileEntry = { name: string; type: 'file' | 'directory'; size?: number; modified?: Date }

/** `sandbox.filesystem`: paths are those of a shell in the sandbox, relative ones start in `/workspace`. */
export class ComputeFiles {
  readonly #session: () => Promise<Session>

  constructor(session: () => Promise<Session>) {
    this.#session = session
  }

  async readFile(path: string): Promise<string> {
    const { files } = await this.#session()
    return await files.text(path, { root: fileRootOf(path) })
  }

  async writeFile(path: string, content: string): Promise<void> {
    const { files } = await this.#session()
    await files.upload(path, content, { root: fileRootOf(path) })
  }

  /** The entries of one directory. A link counts as what it leads to, one that leads nowhere as a file. */
  async readdir(path: string): Promise<ComputeFileEntry[]> {
    const { files } = await this.#session()
    const root = fileRootOf(path)
    const typeAt = async (target: string): Promise<string> => {
      try {
        return (await files.stat(target, { root, follow: true })).type
      } catch (error) {
        if (isCode(error, 'FILE_NOT_FOUND') || isCode(error, 'INVALID_PATH')) return 'file'
        throw error
      }
    }
    const entries = await files.list(path, { root, type: 'any', depth: 1 })
    return await Promise.all(
      entries.map(async ({ path: target, type, size, mtime }) => ({
        name: target.slice(target.lastIndexOf('/') + 1),
        type: (type === 'symlink' ? await typeAt(target) : type) === 'directory' ? 'directory' : 'file',
        size,
        modified: new Date(mtime),
      })),
    )
  }

  async mkdir(path: string): Promise<void> {
    const { files } = await this.#session()
    await files.mkdir(path, { root: fileRootOf(path) })
  }

  async exists(path: string): Promise<boolean> {
    const { files } = await this.#session()
    return await files.exists(path, { root: fileRootOf(path) })
  }

  /** A file, or a directory with what is in it. */
  async remove(path: string): Promise<void> {
    const { files } = await this.#session()
    await files.delete(path, { root: fileRootOf(path), recursive: true })
  }
}
