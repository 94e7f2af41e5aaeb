import { posix } from 'node:path'

/** The directory that commands start in. */
export const WORKSPACE = '/workspace'
/** Absolute paths below these mean themselves (contract 7.1). */
const ROOTS = [WORKSPACE, '/app', '/tmp']

/**
 * The path of the sandbox that a path of a file tool means: itself below `/workspace`, `/app`, `/tmp` and `roots`, else the same path
 * below `/workspace`, since the rest of a sandbox is not writable. `/` is the workspace, and so is where a relative path begins.
 * `..` is resolved first, so that it leads nowhere else.
 */
export const rebase = (path: string, roots: readonly string[] = []): string => {
  const absolute = posix.resolve('/', path.startsWith('/') ? path : `${WORKSPACE}/${path}`)
  const isBelow = (root: string): boolean => absolute === root || absolute.startsWith(`${root}/`)
  if (ROOTS.some(isBelow) || roots.map((root) => posix.resolve('/', root)).some(isBelow)) return absolute
  return absolute === '/' ? WORKSPACE : `${WORKSPACE}${absolute}`
}

/** The path of the sandbox of what a command has called `found`, below the workspace by the name that `rebased` has for it. */
export const fromCommands = (found: string, rebased: string): string => {
  const workspace = /^\/app(?:\/|$)/.test(rebased) ? '/app' : WORKSPACE
  return found.startsWith('./') ? workspace + found.slice(1) : found
}

/**
 * Gives paths of answers the beginning that was asked for, so that a listing of `/notes` names `/notes/a.txt`. Those of `/` stay paths
 * below `/workspace`, which commands take as well.
 */
export const asAsked = (asked: string, rebased: string): ((path: string) => string) => {
  const base = posix.resolve('/', asked)
  if (base === '/' || base === rebased || !asked.startsWith('/')) return (path) => path
  return (path) => (path === rebased || path.startsWith(`${rebased}/`) ? base + path.slice(rebased.length) : path)
}
