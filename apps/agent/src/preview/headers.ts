import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { PreviewHostMode } from '@boxoffice/protocol'
import { hostOnlyCookie, withoutOwnCookies } from './cookies.ts'

/** What a request is for. `origin`: of the preview host, as browsers have it. */
export type Target = { port: number; origin: string; host: PreviewHostMode }

/** Of one connection only (RFC 9110, 7.6.1); `Expect` has been answered by this server. */
const HOP_BY_HOP = new Set([
  ...['connection', 'keep-alive', 'proxy-connection', 'proxy-authenticate', 'proxy-authorization'],
  ...['te', 'trailer', 'transfer-encoding', 'upgrade', 'expect', 'http2-settings'],
])
/** What only a proxy knows: a client's own say is removed. */
const FORWARDED = /^(?:forwarded|x-forwarded-.*|x-real-ip|via)$/
const OWN = /^x-boxoffice-/

/** What `Connection` names ends here too, but for the length: without it the body would be the next request. */
const nominated = (connection: string | string[] | undefined): Set<string> => {
  const names = String(connection ?? '')
    .split(',')
    .map((name) => name.trim().toLowerCase())
  return new Set(names.filter((name) => name !== 'content-length'))
}

function* pairs(raw: readonly string[]): Generator<[name: string, value: string]> {
  for (let i = 0; i + 1 < raw.length; i += 2) yield [raw[i] as string, raw[i + 1] as string]
}

/** Host and Origin change alike, so that a program which compares them sees one and the same. */
export const localOrigin = (port: number): string => `http://localhost:${port}`

/**
 * The headers that the program gets, as `[name, value, …]` in the order in which they came. The framing is written anew: chunked where
 * the request was, else by its length.
 */
export const requestHeaders = (
  incoming: IncomingMessage,
  { port, origin, host }: Target,
  { isUpgrade }: { isUpgrade: boolean },
): string[] => {
  const own = new URL(origin)
  const dropped = nominated(incoming.headers.connection)
  const headers = ['Host', host === 'preserve' ? own.host : `localhost:${port}`]
  for (const [name, value] of pairs(incoming.rawHeaders)) {
    const lower = name.toLowerCase()
    if (lower === 'host' || HOP_BY_HOP.has(lower) || dropped.has(lower) || FORWARDED.test(lower) || OWN.test(lower)) continue
    if (lower === 'cookie') {
      const cookies = withoutOwnCookies(value)
      if (cookies !== undefined) headers.push(name, cookies)
    } else if (lower === 'origin' && value === origin && host === 'localhost') headers.push(name, localOrigin(port))
    else headers.push(name, value)
  }
  headers.push('X-Forwarded-Host', own.host, 'X-Forwarded-Proto', own.protocol.slice(0, -1))
  headers.push('X-Forwarded-For', incoming.socket.remoteAddress ?? 'unknown')
  if (isUpgrade) headers.push('Connection', 'Upgrade', 'Upgrade', 'websocket')
  else if (incoming.headers['transfer-encoding'] !== undefined) headers.push('Transfer-Encoding', 'chunked')
  return headers
}

/** Those of the response that would speak for more than the preview host, or for the product. */
const UNFIT = new Set(['x-robots-tag', 'alt-svc'])

/** The headers that the client gets of a program's response, without those of its connection. */
export const responseHeaders = (rawHeaders: readonly string[], headers: IncomingHttpHeaders, { port, origin }: Target): string[] => {
  const dropped = nominated(headers.connection)
  const kept: string[] = []
  for (const [name, value] of pairs(rawHeaders)) {
    const lower = name.toLowerCase()
    if (HOP_BY_HOP.has(lower) || dropped.has(lower) || UNFIT.has(lower) || OWN.test(lower)) continue
    if (lower === 'set-cookie') {
      const cookie = hostOnlyCookie(value)
      if (cookie !== undefined) kept.push(name, cookie)
    } else if (lower === 'location') kept.push(name, locationOf(value, port, origin))
    else kept.push(name, value)
  }
  kept.push('X-Robots-Tag', 'noindex')
  return kept
}

/** A program that makes whole URLs of its redirects knows itself as localhost. */
const locationOf = (location: string, port: number, origin: string): string => {
  if (!/^https?:\/\//i.test(location) || !URL.canParse(location)) return location
  const { hostname, port: its, pathname, search, hash } = new URL(location)
  const isOwn = its === String(port) && ['localhost', '127.0.0.1', '[::1]'].includes(hostname)
  return isOwn ? `${origin}${pathname}${search}${hash}` : location
}
