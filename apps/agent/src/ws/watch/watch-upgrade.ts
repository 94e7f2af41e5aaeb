import type { PreparedSocket, SocketOptions } from '../session/prepared-socket.ts'
import { watchOf } from './opened-watch.ts'
import { WatchSocket } from './watch-socket.ts'

/** The path of the socket of a watch. */
export const WATCH_SOCKET = 'files/watch'

/** A watch for a socket that is still to be upgraded; throws where there is nothing to watch. */
export const prepareWatch = async (
  options: SocketOptions,
  { search, signal }: { search: string; signal: AbortSignal },
): Promise<PreparedSocket> => {
  const opened = await watchOf(options.sandbox, search, signal)
  return { kind: 'watch', discard: () => opened.watch.close(), socket: (ws) => new WatchSocket({ ...options, ws, opened }) }
}
