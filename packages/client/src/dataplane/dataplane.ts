import { type Endpoint, type Endpoints, isDeadEnd, neverConnected } from '../base/endpoints.ts'
import { BoxofficeError, isCode } from '../base/errors.ts'
import { type Fetch, type HttpRequest, send } from '../base/http.ts'
import type { SessionToken } from '../base/session-token.ts'
import { anySignal } from '../base/signals.ts'
import type { WebSocketConstructor } from '../base/socket.ts'

/** One sandbox as the parts of the SDK reach it: its endpoints, its token, the runtime's own network. */
export type Dataplane = {
  readonly endpoints: Endpoints
  readonly token: SessionToken
  readonly WebSocket: WebSocketConstructor
  readonly reconnectWindowMs: number
  /** Ends with the client. */
  readonly signal: AbortSignal | undefined
  /** One authenticated request; sent again once with a new token when that has run out, or to another endpoint when none of it was sent. */
  request(path: string, request: HttpRequest): Promise<Response>
}

export type DataplaneOptions = Pick<Dataplane, 'endpoints' | 'token' | 'WebSocket' | 'reconnectWindowMs' | 'signal'> & {
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
      if (!isCode(error, 'TOKEN_EXPIRED') || request.body instanceof ReadableStream) throw error
      return await sendWith(await rest.token.renew(token), endpoint, path, request)
    }
  }

  return {
    ...rest,
    async request(path, request) {
      const endpoint = endpoints.current
      try {
        return await sendOn(endpoint, path, request)
      } catch (error) {
        if (!isDeadEnd(endpoint, error)) throw error
        const unsent = neverConnected(error)
        // What may have been done is for the caller to repeat, who knows whether that does harm.
        if (!(await endpoints.failed(endpoint, unsent || endpoint.mode === 'relay')) || !unsent || request.body instanceof ReadableStream)
          throw error
      }
      return await sendOn(endpoints.current, path, request)
    },
  }
}
