import type { SandboxPath } from './paths.ts'

/** Directory of the workspace for what is the sandbox's own: the home of its programs, their caches. */
export const HIDDEN_DIRECTORY = '.boxoffice'

/** What a listing or a watch of this directory leaves out; undefined for nothing. By its own path it is there. */
export const hiddenIn = ({ root, path }: SandboxPath): string | undefined =>
  root === 'workspace' && path === '' ? HIDDEN_DIRECTORY : undefined

/** `path`: relative to the directory that is listed or watched. */
export const isHidden = (path: string, hidden: string | undefined): boolean =>
  hidden !== undefined && (path === hidden || path.startsWith(`${hidden}/`))
