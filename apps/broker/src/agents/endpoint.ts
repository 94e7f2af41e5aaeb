import { BoxofficeError } from '@boxoffice/protocol'

/** What a request below the relay means: a session, and a dataplane path below `/v1/` without leading or trailing slash. */
export type Target = {
  sessionId: string
  /** Undefined when the dataplane has nothing there; told only to who has a token. */
  path: string | undefined
  /** With its `?`, as it came; empty without one. */
  query: string
}

const PREFIX = '/v1/sandbox/relay/'

/** The one of the aliases that is a socket. */
export const EXECUTE_SOCKET = 'execute/ws'
/** The LangSmith-shaped aliases, which live beside `/v1` as well (contract 7.4). */
const ALIASES: ReadonlySet<string> = new Set(['execute', 'upload', 'download', EXECUTE_SOCKET])

export const relayPath = (sessionId: string): string => `${PREFIX}${sessionId}/v1`

export const isRelayed = (url: string | undefined): boolean => url?.startsWith(PREFIX) === true

/**
 * Reads a request target. The path is brought into its normal form first, and that form is what is checked and what is sent on:
 * nothing after this reads the original, so nothing can mean one session here and another one there.
 */
export function parseTarget(url: string): Target {
  // It is written out as it is; no parser lets anything else in.
  if (/[^\x21-\xff]/.test(url)) throw new BoxofficeError('INVALID_REQUEST', 'path: has characters that no URL has')
  const mark = url.indexOf('?')
  const { pathname } = new URL(mark === -1 ? url : url.slice(0, mark), 'http://relay.invalid')
  if (!pathname.startsWith(PREFIX)) throw new BoxofficeError('INVALID_REQUEST', 'path: leaves the session that it begins with')
  const slash = pathname.indexOf('/', PREFIX.length)
  const end = slash === -1 ? pathname.length : slash
  return {
    sessionId: pathname.slice(PREFIX.length, end),
    path: dataplanePath(withoutSlash(pathname.slice(end + 1))),
    query: mark === -1 ? '' : url.slice(mark),
  }
}

const dataplanePath = (rest: string): string | undefined =>
  rest.startsWith('v1/') ? rest.slice(3) : rest === 'v1' ? '' : ALIASES.has(rest) ? rest : undefined

/** One trailing slash is tolerated [C-80]. */
const withoutSlash = (path: string): string => (path.endsWith('/') ? path.slice(0, -1) : path)

/** Whether an error is for readers of an alias, who look for it at top level as well (contract 7.4). */
export const isAlias = (url: string | undefined): boolean => {
  const rest = url?.slice(PREFIX.length).replace(/^[^/?]*\/(?:v1\/)?|\?.*$/g, '') ?? ''
  return ALIASES.has(rest)
}

/** Where the same is at the agent. */
export const sandboxPath = (sandboxId: string, path: string, query: string): string => `${sandboxBase(sandboxId)}/${path}${query}`

export const sandboxBase = (sandboxId: string): string => `/sandboxes/${encodeURIComponent(sandboxId)}/v1`

export const noRoute = (): BoxofficeError =>
  new BoxofficeError('NOT_FOUND', 'no such route; http_base_url ends in /v1, append the route to it')
