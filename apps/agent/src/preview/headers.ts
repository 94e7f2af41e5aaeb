import type { IncomingMessage } from 'node:http'
import { endToEndHeaders, framingOf } from '@boxoffice/node-http'
import type { PreviewHostMode } from '@boxoffice/protocol'
import { hostOnlyCookie, withoutOwnCookies } from './cookies.ts'

/** What a request is for. `origin`: of the preview host, as browsers have it; `clientAddress`: of who asks. */
export type Target = { port: number; origin: string; host: PreviewHostMode; clientAddress: string }

/** What only a proxy knows: a client's own say is removed. */
const FORWARDED = /^(?:forwarded|x-forwarded-.*|x-real-ip|via)$/
const OWN = /^x-boxoffice-/

/** Host and Origin change alike, so that a program which compares them sees one and the same. */
const localOrigin = (port: number): string => `http://localhost:${port}`

/**
 * The headers that the program gets, as `[name, value, …]` in the order in which they came. The framing is written anew: chunked where
 * the request was, else by its length.
 */
export const requestHeaders = (
  incoming: IncomingMessage,
  { port, origin, host, clientAddress }: Target,
  { isUpgrade }: { isUpgrade: boolean },
): string[] => {
  const own = new URL(origin)
  const headers = ['Host', host === 'preserve' ? own.host : `localhost:${port}`]
  for (const [name, value, lower] of endToEndHeaders(incoming.rawHeaders, incoming.headers.connection)) {
    if (lower === 'host' || FORWARDED.test(lower) || OWN.test(lower)) continue
    if (lower === 'cookie') {
      const cookies = withoutOwnCookies(value)
      if (cookies !== undefined) headers.push(name, cookies)
    } else if (lower === 'origin' && value === origin && host === 'localhost') headers.push(name, localOrigin(port))
    else headers.push(name, value)
  }
  headers.push('X-Forwarded-Host', own.host, 'X-Forwarded-Proto', own.protocol.slice(0, -1))
  headers.push('X-Forwarded-For', clientAddress)
  return [...headers, ...framingOf(incoming.headers, isUpgrade)]
}

/** Those of the response that would speak for more than the preview host, or for the product. */
const UNFIT = new Set(['x-robots-tag', 'alt-svc'])

/** The headers that the client gets of a program's response, without those of its connection. */
export const responseHeaders = ({ rawHeaders, headers }: IncomingMessage, { port, origin }: Target): string[] => {
  const kept: string[] = []
  for (const [name, value, lower] of endToEndHeaders(rawHeaders, headers.connection)) {
    if (UNFIT.has(lower) || OWN.test(lower)) continue
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
