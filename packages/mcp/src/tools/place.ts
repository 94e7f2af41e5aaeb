import { fileRootOf } from '@boxoffice/kit/file-root'
import { z } from 'zod'

/** A path as tools take it. */
export const Path = z.string().min(1).max(4096).describe('Relative to /workspace, or absolute in the sandbox')

/** In which of the two trees of the file routes a path is (contract 3.8). */
export const rootOf = (path: string) => ({ root: fileRootOf(path) })
