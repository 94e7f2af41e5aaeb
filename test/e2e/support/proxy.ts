import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'

/** A TCP hop between client and agent whose connections a test can cut, or fall silent, as a network does: without a goodbye. */
export type CuttableProxy = {
  port: number
  setTarget(port: number): void
  cut(): void
  /** From now on a connection ends when it has brought so many bytes, or a few more, to the client. */
  cutAfter(bytes: number): void
  /** Nothing passes any more on the connections that are there, and nobody is told; not even that one of them has closed. */
  silence(): void
  /** From now on that holds for new connections, too. */
  blackhole(): void
  /** Nobody listens any more, and what was open is cut; until it is opened again. */
  block(): Promise<void>
  unblock(): Promise<void>
  connections(): number
  close(): Promise<void>
}

export const startProxy = async (): Promise<CuttableProxy> => {
  const sockets = new Set<Socket>()
  const silent = new WeakSet<Socket>()
  let target = 0
  let swallowing = false
  let most = Number.POSITIVE_INFINITY
  const server = createServer((client) => {
    if (swallowing) {
      sockets.add(client)
      silent.add(client)
      client.on('error', () => {})
      return
    }
    const upstream = connect(target, '127.0.0.1')
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(from)
      const end = (): void => {
        if (!silent.has(from)) to.destroy()
      }
      from.on('error', end)
      from.on('close', () => {
        sockets.delete(from)
        end()
      })
      from.pipe(to)
    }
    let brought = 0
    upstream.on('data', (bytes: Buffer) => {
      brought += bytes.length
      if (brought < most) return
      upstream.destroy()
      client.destroySoon()
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const cut = (): void => {
    for (const socket of sockets) socket.resetAndDestroy()
  }
  const silence = (): void => {
    for (const socket of sockets) {
      silent.add(socket)
      socket.unpipe()
      socket.pause()
    }
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
    cutAfter: (bytes) => {
      most = bytes
    },
    silence,
    blackhole: () => {
      swallowing = true
      silence()
    },
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
