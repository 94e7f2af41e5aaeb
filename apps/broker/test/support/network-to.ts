import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'

/** A way to a port of this machine, which connections made from now on may find somewhere else, or which falls silent. */
export type NetworkTo = AsyncDisposable & {
  port: number
  /** Where new connections lead; those that are open stay. */
  leadTo(port: number): void
  /** Connections stay, and can be made, and nothing passes. */
  silence(): void
  speak(): void
}

export async function networkTo(first: number): Promise<NetworkTo> {
  let to = first
  let isSilent = false
  const sockets = new Set<Socket>()
  const server: Server = createServer((client) => {
    const backend = connect(to, '127.0.0.1')
    for (const [from, other] of [
      [client, backend],
      [backend, client],
    ] as const) {
      sockets.add(from)
      from.on('error', () => {})
      from.on('data', (bytes) => void (isSilent || other.write(bytes)))
      from.on('close', () => {
        sockets.delete(from)
        other.destroy()
      })
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    leadTo(port) {
      to = port
    },
    silence() {
      isSilent = true
    },
    speak() {
      isSilent = false
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
