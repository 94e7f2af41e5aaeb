import { BoxofficeError, isCode } from '../base/errors.ts'
import { type Fetch, type HttpRequest, send } from '../base/http.ts'
import type { SessionToken } from '../base/session-token.ts'
import { anySignal } from '../base/signals.ts'
import type { WebSocketConstructor } from '../base/socket.ts'
import { isDeadEnd, neverConnected, type Way, type Ways } from '../base/ways.ts'

/** One sandbox as the parts of the SDK reach it: the ways to it, its token, the runtime's own network. */
export type Dataplane = {
  readonly ways: Ways
  readonly token: SessionToken
  readonly WebSocket: WebSocketConstructor
  readonly reconnectWindowMs: number
  /** Ends with the client. */
  readonly signal: AbortSignal | undefined
  /** One authenticated request; sent again once with a new token when that has run out, or on another way when none of it was sent. */
  request(path: string, request: HttpRequest): Promise<Response>
}

export type DataplaneOptions = Pick<Dataplane, 'ways' | 'token' | 'WebSocket' | 'reconnectWindowMs' | 'signal'> & {
  fetch: Fetch
}

export const createDataplane = ({ fetch, ...rest }: DataplaneOptions): Dataplane => {
  const { ways } = rest
  const sendWith = (token: string, way: Way, path: string, request: HttpRequest) =>
    send(fetch, way.httpBaseUrl + path, {
      ...request,
      headers: { ...request.headers, authorization: `Bearer ${token}` },
      signal: anySignal(request.signal, rest.signal),
    })

  /** Tells how the way was. */
  const sendOn = async (way: Way, path: string, request: HttpRequest): Promise<Response> => {
    const token = await rest.token.current()
    try {
      const response = await sendWith(token, way, path, request)
      ways.worked(way)
      return response
    } catch (error) {
      // An abort says nothing of the way.
      if (error instanceof BoxofficeError && !isDeadEnd(way, error)) ways.worked(way)
      if (!isCode(error, 'TOKEN_EXPIRED') || request.body instanceof ReadableStream) throw error
      return await sendWith(await rest.token.renew(token), way, path, request)
    }
  }

  return {
    ...rest,
    async request(path, request) {
      const way = ways.current
      try {
        return await sendOn(way, path, request)
      } catch (error) {
        if (!isDeadEnd(way, error)) throw error
        const unsent = neverConnected(error)
        // What may have been done is for the caller to repeat, who knows whether that does harm.
        if (!(await ways.failed(way, unsent || way.mode === 'relay')) || !unsent || request.body instanceof ReadableStream) throw error
      }
      return await sendOn(ways.current, path, request)
    },
  }
}
