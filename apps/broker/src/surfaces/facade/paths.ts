import { posix } from 'node:path'
import { BoxofficeError } from '@boxoffice/protocol'

const WORKSPACE = '/workspace'
const MAX_PATH = 4096

/** A path of a sandbox: absolute, and the query by which the dataplane's file routes name it (contract 3.8). */
export type FilePath = { absolute: string; query: { path: string; root?: 'sandbox' } }

/** A client's path: a relative one is below `/workspace`, where commands start; other absolute ones are the sandbox's own. */
export function filePath(given: string): FilePath {
  if (given.length > MAX_PATH || given.includes('\0')) throw new BoxofficeError('INVALID_PATH', 'path: is too long, or contains NUL')
  const absolute = posix.resolve(WORKSPACE, given)
  if (absolute === WORKSPACE) return { absolute, query: { path: '' } }
  if (absolute.startsWith(`${WORKSPACE}/`)) return { absolute, query: { path: absolute.slice(WORKSPACE.length + 1) } }
  return { absolute, query: { path: absolute, root: 'sandbox' } }
}

/** A path as commands reach it: what is in the workspace from there, so that it is found also where `/workspace` is no mount. */
export const commandPath = ({ absolute, query }: FilePath): string => (query.root === undefined ? `./${query.path}` : absolute)

/** Two paths in one tree, as a move wants them. */
export function samePlace(from: FilePath, to: FilePath): { from: string; to: string; root?: 'sandbox' } {
  if (from.query.root === to.query.root) return { from: from.query.path, to: to.query.path, ...rootOf(from) }
  return { from: from.absolute, to: to.absolute, root: 'sandbox' }
}

const rootOf = ({ query: { root } }: FilePath) => (root === undefined ? {} : { root })

/** The path of something below a directory: the dataplane tells those of the workspace relative to it, and others below `/`. */
export const absoluteOf = ({ query }: FilePath, path: string): string => posix.resolve(query.root === undefined ? WORKSPACE : '/', path)

/** `?name=value&…` of what is defined. */
export function queryOf(fields: Record<string, string | number | boolean | undefined>): string {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(fields)) if (value !== undefined) search.set(name, String(value))
  return search.size === 0 ? '' : `?${search}`
}
