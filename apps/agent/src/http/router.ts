import { BoxofficeError, type Capability } from '@boxoffice/protocol'
import type { Handler } from './call.ts'

/** One dataplane route below `/sandboxes/{sandbox_id}/v1/`. */
export type Route = {
  method: 'GET' | 'POST' | 'DELETE'
  /** As in `execs/:id/output`; at most one parameter. */
  path: string
  /** No route works without the capability that it names; null: any valid token will do, and the sandbox need not be here. */
  requires: Capability | null
  handler: Handler
  alias?: true
  /** Asks about the sandbox without using it: no activity, so that who only looks keeps nothing awake. */
  quiet?: true
}

export type Match = { route: Route; id: string }

/** What stands before a dataplane route in a URL: the sandbox and the rest below `/v1`. */
export type Target = { sandboxId: string; path: string; query: string }

const PREFIX = '/sandboxes/'

/** Splits a request target; undefined when it is none of the dataplane's. One trailing slash is tolerated [C-80]. */
export const parseTarget = (url: string): Target | undefined => {
  if (!url.startsWith(PREFIX)) return undefined
  const mark = url.indexOf('?')
  const end = mark === -1 ? url.length : mark
  const slash = url.indexOf('/', PREFIX.length)
  const idEnd = slash === -1 || slash > end ? end : slash
  const rest = url.slice(idEnd, end)
  const path = rest.startsWith('/v1/') ? rest.slice(4) : rest === '/v1' ? '' : undefined
  return {
    sandboxId: url.slice(PREFIX.length, idEnd),
    path: path === undefined ? rest : path.endsWith('/') ? path.slice(0, -1) : path,
    query: mark === -1 ? '' : url.slice(mark + 1),
  }
}

export interface Router {
  /** Throws NOT_FOUND, or METHOD_NOT_ALLOWED with the allowed methods in `details.allow`. `HEAD` finds what `GET` finds. */
  match(method: string, path: string): Match
}

export const createRouter = (routes: readonly Route[]): Router => {
  const byPath = new Map<string, Route[]>()
  for (const route of routes) byPath.set(route.path, [...(byPath.get(route.path) ?? []), route])
  const patterns = [...byPath]
    .filter(([path]) => path.includes(':id'))
    .map(([path, found]) => ({ pattern: new RegExp(`^${path.replace(':id', '([^/]+)')}$`), found }))

  const find = (path: string): { found: Route[]; id: string } | undefined => {
    const plain = byPath.get(path)
    if (plain !== undefined) return { found: plain, id: '' }
    for (const { pattern, found } of patterns) {
      const id = pattern.exec(path)?.[1]
      if (id !== undefined) return { found, id }
    }
    return undefined
  }

  return {
    match(method, path) {
      const candidates = find(path)
      if (candidates === undefined) throw notFound(path, (below) => find(below) !== undefined)
      const wanted = method === 'HEAD' ? 'GET' : method
      const route = candidates.found.find((one) => one.method === wanted)
      if (route === undefined) throw notAllowed(candidates.found)
      return { route, id: candidates.id }
    },
  }
}

const notFound = (path: string, exists: (path: string) => boolean): BoxofficeError => {
  const doubled = path.startsWith('v1/') && exists(path.slice(3))
  return new BoxofficeError(
    'NOT_FOUND',
    doubled
      ? 'No such route: http_base_url already ends in /v1, append only what follows it'
      : 'No such route; http_base_url ends in /v1, append the route to it',
  )
}

const notAllowed = (routes: readonly Route[]): BoxofficeError => {
  const allow = routes.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method]))
  return new BoxofficeError('METHOD_NOT_ALLOWED', `Method not allowed; this route has ${allow.join(', ')}`, { details: { allow } })
}
