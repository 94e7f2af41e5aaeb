import type { IncomingMessage } from 'node:http'
import { newRequestId, REQUEST_ID_PATTERN } from '@boxoffice/protocol'

/** The client's id is kept when it is well formed [4-163]. */
export const requestIdOf = ({ headers }: IncomingMessage): string => {
  const given = headers['x-request-id']
  return typeof given === 'string' && REQUEST_ID_PATTERN.test(given) ? given : newRequestId()
}
