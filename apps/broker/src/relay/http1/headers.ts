import type { IncomingHttpHeaders } from 'node:http'
import { BoxofficeError } from '@boxoffice/protocol'
import type { ResponseHead } from './response-head.ts'

/** Headers that a hop before or behind us could read as another target than the one that was checked. */
const RETARGETING = /^(?:x-sandbox-|e2b-sandbox-|x-original-url$|x-rewrite-url$)/

/** They belong to one connection (RFC 9110, 7.6.1). */
const HOP_BY_HOP = [
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
]

/** What a hop before us says of the request that it got. */
const OF_EARLIER_HOPS = /^x-(?:forwarded|original|rewrite)-/

/** Not sent on: rebuilt, the client's secrets, or claims about where it is. `origin` was checked here, for this address. */
const NOT_FOR_AGENTS: ReadonlySet<string> = new Set([
  ...HOP_BY_HOP,
  'host',
  'authorization',
  'x-api-key',
  'cookie',
  'forwarded',
  'origin',
  'x-request-id',
])

/** Not sent back: an agent sets no cookies and no CORS rules for the broker's address. */
const NOT_FOR_CLIENTS: ReadonlySet<string> = new Set([...HOP_BY_HOP, 'set-cookie', 'x-request-id'])

/** Throws for a header that could change the target after it was authorised (contract 3.11). */
export function refuseRetargeting(headers: IncomingHttpHeaders): void {
  for (const name in headers)
    if (RETARGETING.test(name))
      throw new BoxofficeError('INVALID_REQUEST', `header ${name.slice(0, 100)}: could change the target; leave it out`)
}

/**
 * The lines that the agent gets: the client's end-to-end headers, with the broker's credential in the place of the client's. `but`
 * are left out as well.
 */
export function requestHead(headers: IncomingHttpHeaders, token: string, requestId: string, but?: (name: string) => boolean): string {
  const named = namedByConnection(headers.connection)
  const chunked = headers['transfer-encoding'] !== undefined
  let lines = ''
  for (const name in headers) {
    if (NOT_FOR_AGENTS.has(name) || OF_EARLIER_HOPS.test(name) || named?.has(name) === true || but?.(name) === true) continue
    // One body, framed once.
    if (chunked && name === 'content-length') continue
    lines += `${name}: ${headers[name]}\r\n`
  }
  if (chunked) lines += 'transfer-encoding: chunked\r\n'
  return `${lines}authorization: Bearer ${token}\r\nx-request-id: ${requestId}\r\n`
}

/** What the client gets of an agent's answer: names and values, in turn. */
export function toClient({ headers, connection }: ResponseHead, requestId: string): string[] {
  const named = namedByConnection(connection)
  const sent = ['X-Request-Id', requestId]
  for (let i = 0; i < headers.length; i += 2) {
    const name = (headers[i] as string).toLowerCase()
    if (NOT_FOR_CLIENTS.has(name) || name.startsWith('access-control-') || named?.has(name) === true) continue
    sent.push(headers[i] as string, headers[i + 1] as string)
  }
  return sent
}

/** `Connection` may name further headers of its hop. What frames the body is not its to name. */
function namedByConnection(connection: string | undefined): ReadonlySet<string> | undefined {
  if (connection === undefined || connection === '' || /^(?:keep-alive|close|upgrade)$/i.test(connection)) return undefined
  const named = new Set(connection.split(',').map((name) => name.trim().toLowerCase()))
  named.delete('content-length')
  return named
}
