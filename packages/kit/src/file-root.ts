const WORKSPACE = /^\/+(?:workspace|app)(?:\/|$)/

/**
 * The tree that a path of a shell means: `/workspace`, `/app` and what is below them, and relative paths, are the workspace; every
 * other absolute path, as `/tmp/a.txt`, is the sandbox's own file system, which a sandbox without isolation does not have.
 */
export const fileRootOf = (path: string): 'workspace' | 'sandbox' =>
  path.startsWith('/') && !WORKSPACE.test(path) ? 'sandbox' : 'workspace'
