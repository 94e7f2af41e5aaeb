import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { BoxofficeError, fromUnknown, newRequestId, requestIdFrom } from '@boxoffice/protocol'
import { requireSingleHeaders } from './doubled-header.ts'
import { namesWebSocket } from './names-websocket.ts'
import { rawResponse } from './raw-response.ts'

/** How long TLS and the headers of a request may take. */
const BEGIN_WITHIN_MS = 10_000
/**
 * How much longer an idle connection is kept than clients are told (`Keep-Alive: timeout`). Timers come before what has been received: a
 * process that was stalled would cut a connection on which the next request lies already, and its client could not know whether that was read.
 */
const KEPT_LONGER_MS = 10_000

/**
 * For `createServer`, with TLS or without: what Node would refuse by itself, with an empty body, is left to `requireHost`; who does
 * not come to the end of a request's headers is cut.
 */
export const SERVER_OPTIONS = {
  /** Another protocol that is offered, as some clients offer h2c with each request, is left aside: what comes is answered as HTTP/1.1. */
  shouldUpgradeCallback: namesWebSocket,
  requireHostHeader: false,
  headersTimeout: BEGIN_WITHIN_MS,
  handshakeTimeout: BEGIN_WITHIN_MS,
  keepAliveTimeoutBuffer: KEPT_LONGER_MS,
  /** How often Node looks for those that are late. */
  connectionsCheckingInterval: 2000,
} as const

const EXPECTATION_FAILED = 417
/** Node's code for headers or a request that take longer than they may. */
const LATE = 'ERR_HTTP_REQUEST_TIMEOUT'

/** Makes the server refuse with the envelope what no listener gets to see: what is no HTTP, and expectations that nobody can meet. */
export function refuseInEnvelope(server: Server): void {
  const late = new WeakSet<Duplex>()
  const arrived = ({ socket }: IncomingMessage): void => void late.delete(socket)
  server.prependListener('request', arrived)
  server.prependListener('upgrade', arrived)
  server.on('clientError', (thrown: NodeJS.ErrnoException, socket: Duplex) => {
    if (thrown.code !== LATE) return refuseUnparsed(thrown, socket)
    // Where the process was stalled, the headers may lie there unread: they are read before this runs.
    late.add(socket)
    setImmediate(() => {
      if (late.has(socket)) refuseLate(socket)
    })
  })
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    const expected = String(request.headers.expect).slice(0, 100)
    const error = new BoxofficeError('INVALID_REQUEST', `Expect: ${expected} cannot be met; leave it out, or send 100-continue`)
    refuse(request, response, error, EXPECTATION_FAILED)
  })
}

/** HTTP/1.1 has a Host with every request; that and credentials are there once. */
export const requireHost =
  (listener: RequestListener): RequestListener =>
  (request, response) => {
    try {
      requireSingleHeaders(request)
    } catch (thrown) {
      const error = fromUnknown(thrown)
      return refuse(request, response, error, error.status)
    }
    if (request.headers.host !== undefined || request.httpVersion === '1.0') return listener(request, response)
    const error = new BoxofficeError('INVALID_REQUEST', 'Host: the header is missing; HTTP/1.1 needs it with every request')
    return refuse(request, response, error, error.status)
  }

/** What is no HTTP or has too large headers is refused like everything else. */
function refuseUnparsed({ code }: NodeJS.ErrnoException, socket: Duplex): void {
  if (code === 'ECONNRESET') return void socket.destroy()
  refuseOn(socket, new BoxofficeError('INVALID_REQUEST', 'the request is not valid HTTP, or its headers are too large'))
}

/** So is what does not come to its end in time. */
export function refuseLate(socket: Duplex): void {
  refuseOn(socket, new BoxofficeError('TIMEOUT', 'the request did not arrive in time'))
}

function refuseOn(socket: Duplex, error: BoxofficeError): void {
  if (!socket.writable) return void socket.destroy()
  const requestId = newRequestId()
  const headers = { 'Content-Type': 'application/json', 'X-Request-Id': requestId }
  rawResponse(socket, error.status, headers, JSON.stringify(error.envelope(requestId)))
}

/** The connection goes with it: a body that was never asked for may follow. */
function refuse(request: IncomingMessage, response: ServerResponse, error: BoxofficeError, status: number): void {
  const requestId = requestIdFrom(request.headers['x-request-id'])
  const body = JSON.stringify(error.envelope(requestId))
  const headers = { 'content-type': 'application/json', 'x-request-id': requestId, 'content-length': Buffer.byteLength(body) }
  response.writeHead(status, { ...headers, connection: 'close' }).end(request.method === 'HEAD' ? undefined : body)
}
