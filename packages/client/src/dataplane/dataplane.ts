import { BoxofficeError, isCode, SilenceError } from '../base/errors.ts'
import { anySignal } from '../base/signals.ts'
import { type Endpoint, type Endpoints, isDeadEnd, neverConnected } from '../network/endpoints.ts'
import { type Fetch, type HttpRequest, send } from '../network/http.ts'
import { whileAlive } from '../network/liveness.ts'
import type { SessionToken } from '../network/session-token.ts'
import type { WebSocketConstructor } from '../network/socket.ts'
import { StreamBody } from '../network/stream-body.ts'

export type DataplaneRequest = HttpRequest & {
  /** The caller finds out by itself whether the connection is dead. */
  unwatched?: boolean
}

/** One sandbox as the parts of the SDK reach it: its endpoints, its token, the runtime's own network. */
export type Dataplane = {
  readonly endpoints: Endpoints
  readonly token: SessionToken
  readonly WebSocket: WebSocketConstructor
  readonly reconnectWindowMs: number
  /** How long a request may be without a sign of life from the server. */
  readonly requestTimeoutMs: number
  /** Ends with the client. */
  readonly signal: AbortSignal | undefined
  /**
   * One authenticated request; sent again once with a new token when that has run out, or to another endpoint when none of it was sent.
   * Rejects with `SilenceError` where the server gives no sign of life.
   */
  request(path: string, request: DataplaneRequest): Promise<Response>
}

export type DataplaneOptions = Pick<
  Dataplane,
  'endpoints' | 'token' | 'WebSocket' | 'reconnectWindowMs' | 'requestTimeoutMs' | 'signal'
> & {
  fetch: Fetch
}

export const createDataplane = ({ fetch, ...rest }: DataplaneOptions): Dataplane => {
  const { endpoints } = rest
  const sendWith = (token: string, endpoint: Endpoint, path: string, request: HttpRequest) =>
    send(fetch, endpoint.httpBaseUrl + path, {
      ...request,
      headers: { ...request.headers, authorization: `Bearer ${token}` },
      signal: anySignal(request.signal, rest.signal),
    })

  /** Tells whether the endpoint answered. */
  const sendOn = async (endpoint: Endpoint, path: string, request: HttpRequest): Promise<Response> => {
    const token = await rest.token.current()
    try {
      const response = await sendWith(token, endpoint, path, request)
      endpoints.worked(endpoint)
      return response
    } catch (error) {
      // An abort says nothing of the endpoint.
      if (error instanceof BoxofficeError && !isDeadEnd(endpoint, error)) endpoints.worked(endpoint)
      if (!isCode(error, 'TOKEN_EXPIRED') || isSpent(request)) throw error
      return await sendWith(await rest.token.renew(token), endpoint, path, request)
    }
  }

  /** Asks whether anybody is there while the response is awaited. */
  const watchOn = (endpoint: Endpoint, path: string, request: DataplaneRequest): Promise<Response> => {
    if (request.unwatched === true) return sendOn(endpoint, path, request)
    const silentMs = rest.requestTimeoutMs
    return whileAlive((signal) => sendOn(endpoint, path, { bodySilentMs: 2 * silentMs, ...request, signal }), {
      ask: (signal) => pingOn(endpoint, signal),
      silentMs,
      moreMs: sendingMs(request),
      signal: request.signal,
    })
  }

  /** Every answer is one, but for that of a relay which does not reach the agent. */
  const pingOn = async (endpoint: Endpoint, signal: AbortSignal): Promise<void> => {
    try {
      await (await sendWith(await rest.token.current(), endpoint, '/ping', { signal })).body?.cancel()
    } catch (error) {
      if (!(error instanceof BoxofficeError) || isDeadEnd(endpoint, error)) throw error
    }
  }

  return {
    ...rest,
    async request(path, request) {
      const endpoint = endpoints.current
      try {
        return await watchOn(endpoint, path, request)
      } catch (error) {
        if (!isDeadEnd(endpoint, error)) throw error
        const unsent = neverConnected(error)
        // What may have been done is for the caller to repeat, who knows whether that does harm.
        const certain = unsent || endpoint.mode === 'relay' || (error instanceof SilenceError && error.certain)
        if (!(await endpoints.failed(endpoint, certain)) || !unsent || isSpent(request)) throw error
      }
      return await watchOn(endpoints.current, path, request)
    },
  }
}

const isSpent = ({ body }: HttpRequest): boolean => body instanceof StreamBody && body.isBegun

/** 64 KiB/s: so slowly may a body go before it is taken for lost. */
const SLOWEST_BYTES_PER_MS = 65

/** How long the body may take to be sent; what a stream has to send nobody knows. */
const sendingMs = ({ body }: HttpRequest): number => {
  if (body instanceof StreamBody || body instanceof ReadableStream) return Number.POSITIVE_INFINITY
  const length = typeof body === 'string' ? body.length : body instanceof Blob ? body.size : (body as Uint8Array | undefined)?.byteLength
  return (length ?? 0) / SLOWEST_BYTES_PER_MS
}
