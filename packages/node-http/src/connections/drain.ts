import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/**
 * Counts the requests of each connection and gives what closes the server: new connections are refused, each open one ends
 * as soon as no request is in flight on it, and after `withinMs` whatever is left is cut. `closeIdleConnections` is not enough: a connection on which nothing was ever
 * asked does not count as idle, and clients open such ones ahead. `connects` is the event whose socket requests will carry.
 */
export function drainable(server: Server, connects: 'connection' | 'secureConnection', withinMs: number): () => Promise<void> {
  const requests = new Map<Socket, number>()
  let draining = false
  const count = (socket: Socket, change: number): void => {
    const left = (requests.get(socket) ?? 0) + change
    if (draining && left <= 0) socket.destroySoon()
    else if (!socket.destroyed) requests.set(socket, left)
  }
  server.on(connects, (socket: Socket) => {
    count(socket, 0)
    socket.once('close', () => requests.delete(socket))
  })
  server.on('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
    count(socket, 1)
    response.once('close', () => count(socket, -1))
  })
  return async () => {
    if (!server.listening) return
    draining = true
    const closed = new Promise<void>((resolve) => server.close(() => resolve()))
    for (const socket of requests.keys()) count(socket, 0)
    const limit = setTimeout(() => server.closeAllConnections(), withinMs)
    await closed
    clearTimeout(limit)
  }
}
