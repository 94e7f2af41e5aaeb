import type { IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http'
import { BoxofficeError } from '@boxoffice/protocol'

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

/** What the agent gets: the client's end-to-end headers, with the broker's credential in the place of the client's. */
export function toAgent(headers: IncomingHttpHeaders, token: string, requestId: string): OutgoingHttpHeaders {
  const named = namedByConnection(headers)
  const sent: OutgoingHttpHeaders = {}
  for (const name in headers) {
    if (NOT_FOR_AGENTS.has(name) || name.startsWith('x-forwarded-') || named?.has(name) === true) continue
    sent[name] = headers[name]
  }
  if (headers['transfer-encoding'] !== undefined) sent['transfer-encoding'] = 'chunked'
  sent.authorization = `Bearer ${token}`
  sent['x-request-id'] = requestId
  return sent
}

/** What the client gets of an agent's answer. */
export function toClient(headers: IncomingHttpHeaders): OutgoingHttpHeaders {
  const named = namedByConnection(headers)
  const sent: OutgoingHttpHeaders = {}
  for (const name in headers) {
    if (NOT_FOR_CLIENTS.has(name) || name.startsWith('access-control-') || named?.has(name) === true) continue
    sent[name] = headers[name]
  }
  return sent
}

/** `Connection` may name further headers of its hop. What frames the body is not its to name. */
function namedByConnection({ connection }: IncomingHttpHeaders): ReadonlySet<string> | undefined {
  if (connection === undefined || /^(?:keep-alive|close|upgrade)$/i.test(connection)) return undefined
  const named = new Set(connection.split(',').map((name) => name.trim().toLowerCase()))
  named.delete('content-length')
  return named
}
