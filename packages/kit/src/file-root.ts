const WORKSPACE = /^\/+(?:workspace|app)(?:\/+|$)/

/**
 * The tree that a path of a shell means: `/workspace`, `/app` and what is below them, and relative paths, are the workspace; every
 * other absolute path, as `/tmp/a.txt`, is the sandbox's own file system, which a sandbox without isolation does not have.
 */
export const fileRootOf = (path: string): 'workspace' | 'sandbox' =>
  path.startsWith('/') && !WORKSPACE.test(path) ? 'sandbox' : 'workspace'

/**
 * A path as a command reaches it that starts in the workspace. What is in the workspace begins with `.`: a sandbox without isolation
 * has neither `/workspace` nor `/app`, and a name that begins with a hyphen is no option then.
 */
export const forCommands = (path: string): string => {
  if (fileRootOf(path) === 'sandbox') return path
  const inside = path.replace(WORKSPACE, '')
  return inside === '' ? '.' : `./${inside}`
}
