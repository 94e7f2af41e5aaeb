import type { IncomingMessage, ServerResponse } from 'node:http'

/** Which web pages may talk to the dataplane [C-69]. */
export interface Origins {
  /** A request without `Origin` is no web page's and is allowed; same origin is allowed. */
  allowed(request: IncomingMessage): boolean
  /** Adds the CORS headers for a listed origin. */
  expose(request: IncomingMessage, response: ServerResponse): void
  /** Answers a preflight. False when it is none, or the origin is not listed. */
  preflight(request: IncomingMessage, response: ServerResponse): boolean
}

const EXPOSED = [
  'X-Request-Id',
  'Retry-After',
  'ETag',
  'Content-Range',
  'X-Stream-Offset',
  'X-Stream-Next-Offset',
  'X-Stream-Oldest-Offset',
  'X-Stream-Eof',
  'X-Stream-Gap',
].join(', ')

const METHODS = 'GET, HEAD, POST, DELETE'
const HEADERS = 'Authorization, X-Api-Key, Content-Type, X-Request-Id, Range, If-Range, If-Match, If-None-Match'
const PREFLIGHT_SECONDS = 600

export const createOrigins = (listed: readonly string[]): Origins => {
  const known = new Set(listed)
  const isListed = (origin: string): boolean => known.has(origin) || known.has('*')

  const expose = (request: IncomingMessage, response: ServerResponse): void => {
    const { origin } = request.headers
    if (origin === undefined || !isListed(origin)) return
    response.setHeader('Access-Control-Allow-Origin', origin)
    response.setHeader('Access-Control-Expose-Headers', EXPOSED)
    response.setHeader('Vary', 'Origin')
  }

  return {
    allowed({ headers: { origin, host } }) {
      if (origin === undefined || isListed(origin)) return true
      return URL.canParse(origin) && new URL(origin).host === host
    },
    expose,
    preflight(request, response) {
      const { origin, 'access-control-request-method': method } = request.headers
      if (request.method !== 'OPTIONS' || origin === undefined || method === undefined || !isListed(origin)) return false
      expose(request, response)
      response.writeHead(204, {
        'Access-Control-Allow-Methods': METHODS,
        'Access-Control-Allow-Headers': HEADERS,
        'Access-Control-Max-Age': PREFLIGHT_SECONDS,
      })
      response.end()
      return true
    },
  }
}
