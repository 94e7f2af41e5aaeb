import type { IncomingMessage, ServerResponse } from 'node:http'
import { BoxofficeError, DATAPLANE_CORS } from '@boxoffice/protocol'

/** Which web pages may use the relay [C-69]: the broker's list, as an agent's for its own address. */
export interface Origins {
  /** For sockets: throws unless the request is no web page's, of a listed origin or of the same one. */
  require(request: IncomingMessage): void
  /** Adds the CORS headers for a listed origin; true when the request was a preflight and has been answered. */
  answer(request: IncomingMessage, response: ServerResponse, requestId: string): boolean
}

export function createOrigins(listed: readonly string[]): Origins {
  const known = new Set(listed)
  const isListed = (origin: string): boolean => known.has(origin) || known.has('*')
  return {
    require({ headers: { origin, host } }) {
      if (origin === undefined || isListed(origin) || (URL.canParse(origin) && new URL(origin).host === host)) return
      throw new BoxofficeError('FORBIDDEN', 'this origin may not connect; list it in cors_origins')
    },
    answer(request, response, requestId) {
      const { origin } = request.headers
      if (origin === undefined || !isListed(origin)) return false
      response.setHeader('Access-Control-Allow-Origin', origin)
      response.setHeader('Access-Control-Expose-Headers', DATAPLANE_CORS.exposed)
      response.setHeader('Vary', 'Origin')
      if (request.method !== 'OPTIONS' || request.headers['access-control-request-method'] === undefined) return false
      response.writeHead(204, {
        'X-Request-Id': requestId,
        'Access-Control-Allow-Methods': DATAPLANE_CORS.methods,
        'Access-Control-Allow-Headers': DATAPLANE_CORS.headers,
        'Access-Control-Max-Age': DATAPLANE_CORS.preflightSeconds,
      })
      response.end()
      return true
    },
  }
}
