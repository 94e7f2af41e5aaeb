import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'

/** A TCP hop between client and agent whose connections a test can cut, as a network does: no goodbye, both ends at once. */
export type CuttableProxy = { port: number; setTarget(port: number): void; cut(): void; connections(): number; close(): Promise<void> }

export const startProxy = async (): Promise<CuttableProxy> => {
  const sockets = new Set<Socket>()
  let target = 0
  const server = createServer((client) => {
    const upstream = connect(target, '127.0.0.1')
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(from)
      from.on('error', () => to.destroy())
      from.on('close', () => {
        sockets.delete(from)
        to.destroy()
      })
      from.pipe(to)
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const cut = (): void => {
    for (const socket of sockets) socket.resetAndDestroy()
  }
  return {
    port: address !== null && typeof address === 'object' ? address.port : 0,
    setTarget: (port) => {
      target = port
    },
    cut,
    connections: () => sockets.size / 2,
    close: async () => {
      cut()
      server.close()
      await once(server, 'close')
    },
  }
}
