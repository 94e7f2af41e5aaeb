import type { IncomingMessage } from 'node:http'
import { BoxofficeError } from '@boxoffice/protocol'
import { hasBody } from '../bodies/unread-body.ts'
import { namesWebSocket } from '../refusals/names-websocket.ts'

/** Throws for what the next hop could take for another host or request than this server does. */
export const requireForwardable = ({ method, url = '' }: IncomingMessage): void => {
  if (method === 'TRACE' || method === 'CONNECT') throw new BoxofficeError('METHOD_NOT_ALLOWED', `${method} is not passed on`)
  if (!url.startsWith('/')) throw new BoxofficeError('INVALID_REQUEST', 'The request names another target than a path of its host')
}

/** The same for an upgrade. */
export const requireForwardableUpgrade = (incoming: IncomingMessage): void => {
  requireForwardable(incoming)
  if (incoming.method !== 'GET' || hasBody(incoming) || !namesWebSocket(incoming))
    throw new BoxofficeError('INVALID_REQUEST', 'Upgrade: only websocket is passed on, by a GET without a body')
}
