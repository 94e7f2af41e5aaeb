import type { IncomingHttpHeaders } from 'node:http'
import { BoxofficeError, SUBPROTOCOL_BEARER_PREFIX } from '@boxoffice/protocol'

/**
 * The token of a request to the dataplane [4-55]; undefined when there is none. `Authorization` wins over `X-Api-Key`, in which some
 * clients go on to send their API key [contract 7.4]. Queries and cookies never authenticate [4-57].
 */
export function tokenOf({ authorization, 'x-api-key': apiKey }: IncomingHttpHeaders): string | undefined {
  const bearer = authorization === undefined ? undefined : /^bearer +(\S+)$/i.exec(authorization)?.[1]
  if (authorization !== undefined && bearer === undefined) throw unauthenticated('Authorization must be "Bearer <session token>"')
  const token = bearer ?? (typeof apiKey === 'string' ? apiKey : undefined)
  if (token?.startsWith(API_KEY_PREFIX))
    throw unauthenticated('this is an API key; the routes of a sandbox take the session token that POST /v1/sandbox/sessions gives for it')
  return token
}

const API_KEY_PREFIX = 'bxo_'

/** The subprotocols that the client of a WebSocket offers. */
export const offeredProtocols = (headers: IncomingHttpHeaders): string[] =>
  headers['sec-websocket-protocol']?.split(',').map((name) => name.trim()) ?? []

/** A browser's way to bring a token to a WebSocket: it cannot set headers [C-38]. */
export const subprotocolToken = (offered: readonly string[]): string | undefined =>
  offered.find((name) => name.startsWith(SUBPROTOCOL_BEARER_PREFIX))?.slice(SUBPROTOCOL_BEARER_PREFIX.length)

const unauthenticated = (message: string): BoxofficeError => new BoxofficeError('UNAUTHENTICATED', message)
