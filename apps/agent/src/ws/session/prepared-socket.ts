import type { WebSocket } from 'ws'
import type { WholeSocket, WholeSocketOptions } from './whole-socket.ts'

/** What is known of a socket before its upgrade. */
export type SocketOptions = Omit<WholeSocketOptions, 'ws'>

/** The one thing that a socket is for, which is there before the upgrade; exactly one of `discard` and `socket` is called. */
export type PreparedSocket = {
  /** Its name in the metrics. */
  kind: 'process' | 'watch' | 'port'
  /** The upgrade has come to nothing. */
  discard(): void
  socket(ws: WebSocket): WholeSocket
}
