import type { PlacedSession } from '../../domain/session.ts'

const WORKSPACE = '/workspace'

/** A path of a client's as the dataplane takes it: a relative one begins where commands do. */
export const filePath = (path: string): string => (path.startsWith('/') ? path : `${WORKSPACE}/${path}`)

/** The query that makes a path mean the sandbox's own file system; without isolation there is none but the workspace. */
export const rootQuery = ({ isolation }: PlacedSession): { root?: 'sandbox' } => (isolation === 'none' ? {} : { root: 'sandbox' })

/** A path as commands reach it: what is in the workspace from there, so that it is found also where `/workspace` is no mount. */
export const commandPath = (path: string): string => {
  const absolute = filePath(path)
  if (absolute === WORKSPACE || absolute === `${WORKSPACE}/`) return '.'
  return absolute.startsWith(`${WORKSPACE}/`) ? `.${absolute.slice(WORKSPACE.length)}` : absolute
}

/** The absolute path of what a command has called `found`. */
export const absolutePath = (found: string): string =>
  found === '.' ? WORKSPACE : found.startsWith('./') ? WORKSPACE + found.slice(1) : found
