import { afterEach } from 'vitest'
import type { SocketClient } from './socket-client.ts'

/** For the top of a file: ends each socket that it is given after the test that opened it. */
export const endedAfterEach = (): (<S extends SocketClient>(socket: S) => S) => {
  const open: SocketClient[] = []
  afterEach(async () => {
    for (const socket of open.splice(0)) {
      socket.ws.terminate()
      await socket.closed
    }
  })
  return (socket) => {
    open.push(socket)
    return socket
  }
}
