import type { ClientRequest } from 'node:http'

/** A host that is gone swallows the attempt. What is asked of an agent may take minutes, the connection to it may not. */
export const CONNECT_TIMEOUT_MS = 3000

/** Ends a request that has no connection in time. */
export function failSlowConnect(request: ClientRequest): void {
  request.once('socket', (socket) => {
    if (!socket.connecting) return
    const late = setTimeout(() => request.destroy(new Error('the connection was not made in time')), CONNECT_TIMEOUT_MS)
    const made = () => clearTimeout(late)
    socket.once('connect', made).once('close', made)
  })
}
