import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'

/** A TCP hop between client and agent whose connections a test can cut, as a network does: no goodbye, both ends at once. */
export type CuttableProxy = {
  port: number
  setTarget(port: number): void
  cut(): void
  /** Nobody listens any more, and what was open is cut; until it is opened again. */
  block(): Promise<void>
  unblock(): Promise<void>
  connections(): number
  close(): Promise<void>
}

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
  const port = address !== null && typeof address === 'object' ? address.port : 0
  const block = async (): Promise<void> => {
    cut()
    if (!server.listening) return
    server.close()
    await once(server, 'close')
  }
  return {
    port,
    setTarget: (port) => {
      target = port
    },
    cut,
    connections: () => sockets.size / 2,
    block,
    unblock: async () => {
      if (server.listening) return
      server.listen(port, '127.0.0.1')
      await once(server, 'listening')
    },
    close: block,
  }
}
