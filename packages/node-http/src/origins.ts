import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http'

/** Which web pages may talk to the dataplane, at the agent and through the relay [C-69]. */
export interface Origins {
  /** A request without `Origin` is no web page's and is allowed; same origin is allowed. */
  allowed(request: IncomingMessage): boolean
  /** Adds the CORS headers for a listed origin. */
  expose(request: IncomingMessage, response: ServerResponse): void
  /** Answers a preflight, with `headers` beside the CORS ones. False when it is none, or the origin is not listed. */
  preflight(request: IncomingMessage, response: ServerResponse, headers?: OutgoingHttpHeaders): boolean
}

/** `listed`: origins as browsers send them; `*` stands for all. */
export const createOrigins = (listed: readonly string[]): Origins => {
  const known = new Set(listed)
  const isListed = (origin: string): boolean => known.has(origin) || known.has('*')

  const expose = (request: IncomingMessage, response: ServerResponse): void => {
    const { origin } = request.headers
    if (origin === undefined || !isListed(origin)) return
    response.setHeader('Access-Control-Allow-Origin', origin)
    response.setHeader('Access-Control-Expose-Headers', DATAPLANE_CORS.exposed)
    response.setHeader('Vary', 'Origin')
  }

  return {
    allowed({ headers: { origin, host } }) {
      if (origin === undefined || isListed(origin)) return true
      return URL.canParse(origin) && new URL(origin).host === host
    },
    expose,
    preflight(request, response, headers) {
      const { origin, 'access-control-request-method': method } = request.headers
      if (request.method !== 'OPTIONS' || origin === undefined || method === undefined || !isListed(origin)) return false
      expose(request, response)
      response.writeHead(204, {
        ...headers,
        'Access-Control-Allow-Methods': DATAPLANE_CORS.methods,
        'Access-Control-Allow-Headers': DATAPLANE_CORS.headers,
        'Access-Control-Max-Age': DATAPLANE_CORS.preflightSeconds,
      })
      response.end()
      return true
    },
  }
}

/** What web pages of a listed origin may do with the dataplane, at the agent and through the relay [C-69]. */
const DATAPLANE_CORS = {
  methods: 'GET, HEAD, POST, DELETE',
  headers: 'Authorization, X-Api-Key, Content-Type, X-Request-Id, Range, If-Range, If-Match, If-None-Match',
  exposed: [
    'X-Request-Id',
    'Retry-After',
    'ETag',
    'Content-Range',
    'X-Stream-Offset',
    'X-Stream-Next-Offset',
    'X-Stream-Oldest-Offset',
    'X-Stream-Eof',
    'X-Stream-Gap',
  ].join(', '),
  preflightSeconds: 600,
} as const
