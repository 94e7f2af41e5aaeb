import type { PreparedSocket, SocketOptions } from '../session/prepared-socket.ts'
import { openPort } from './opened-port.ts'
import { PortSocket } from './port-socket.ts'

/** The path of the socket of a port. */
export const PORT_SOCKET = 'ports/:id'
const PATTERN = /^ports\/([^/]+)$/

/** The port of a path as it was written; undefined for other paths. */
export const portIn = (path: string): string | undefined => PATTERN.exec(path)?.[1]

/** A connection for a socket that is still to be upgraded; throws where nobody listens. `written`: the port as the path has it. */
export const preparePort = async (
  options: SocketOptions,
  { written, search, signal }: { written: string; search: string; signal: AbortSignal },
): Promise<PreparedSocket> => {
  const opened = await openPort(options.sandbox, written, search, signal)
  return { kind: 'port', discard: () => void opened.tunnel.destroy(), socket: (ws) => new PortSocket({ ...options, ws, opened }) }
}
