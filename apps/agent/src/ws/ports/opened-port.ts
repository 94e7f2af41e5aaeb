import { BoxofficeError, PORT_LIMITS, parsePort } from '@boxoffice/protocol'
import { Query } from '../../http/query.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import { dialPort, type Tunnel } from '../../supervisor/tunnel.ts'

/** A connection to a port, and how far each side may be ahead of what the other has taken; undefined: as the network lets it. */
export type OpenedPort = { tunnel: Tunnel; port: number; window: number | undefined }

/** Connects to the port, or throws why not. */
export const openPort = async (sandbox: Sandbox, written: string, search: string, signal: AbortSignal): Promise<OpenedPort> => {
  const { min, max } = PORT_LIMITS.windowBytes
  const port = parsePort(written)
  if (port === undefined)
    throw new BoxofficeError(
      'INVALID_REQUEST',
      `port: must be a number from ${PORT_LIMITS.first} to ${PORT_LIMITS.last}, in decimal digits`,
    )
  const window = new Query(search.replace(/^\?/, '')).integer('window', { min, max, fallback: 0 })
  return { tunnel: await dialPort(sandbox.link, port, { signal }), port, window: window === 0 ? undefined : window }
}
