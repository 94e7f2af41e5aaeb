import { isCode } from './errors.ts'
import { type Fetch, type HttpRequest, send } from './http.ts'
import type { SessionToken } from './session-token.ts'
import { anySignal } from './signals.ts'
import type { WebSocketConstructor } from './stream/socket.ts'

/** The way to one sandbox: its URLs (opaque, only suffixes are appended [C-42]), its token, the runtime's own network. */
export type Dataplane = {
  readonly httpBaseUrl: string
  readonly wsBaseUrl: string
  readonly token: SessionToken
  readonly WebSocket: WebSocketConstructor
  readonly reconnectWindowMs: number
  /** Ends with the client. */
  readonly signal: AbortSignal | undefined
  /** One request below `httpBaseUrl`, authenticated; renewed and sent again once when the token has run out. */
  request(path: string, request: HttpRequest): Promise<Response>
}

export type DataplaneOptions = Pick<Dataplane, 'httpBaseUrl' | 'wsBaseUrl' | 'token' | 'WebSocket' | 'reconnectWindowMs' | 'signal'> & {
  fetch: Fetch
}

export const createDataplane = ({ fetch, ...rest }: DataplaneOptions): Dataplane => {
  const sendWith = (token: string, path: string, request: HttpRequest) =>
    send(fetch, rest.httpBaseUrl + path, {
      ...request,
      headers: { ...request.headers, authorization: `Bearer ${token}` },
      signal: anySignal(request.signal, rest.signal),
    })
  return {
    ...rest,
    async request(path, request) {
      const token = await rest.token.current()
      try {
        return await sendWith(token, path, request)
      } catch (error) {
        if (!isCode(error, 'TOKEN_EXPIRED') || request.body instanceof ReadableStream) throw error
        return await sendWith(await rest.token.renew(token), path, request)
      }
    },
  }
}
