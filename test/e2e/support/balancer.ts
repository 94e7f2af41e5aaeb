import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'

/** In front of several brokers, as a load balancer of TCP: each connection goes to the next one that answers. */
export type Balancer = AsyncDisposable & { port: number }

export const startBalancer = async (ports: readonly number[]): Promise<Balancer> => {
  const sockets = new Set<Socket>()
  let turn = 0
  /** `tried`: how many have not answered; `first` is where this connection has begun, as others take their turns meanwhile. */
  const join = (client: Socket, first: number, tried: number): void => {
    const upstream = connect(ports[(first + tried) % ports.length] ?? 0, '127.0.0.1')
    sockets.add(upstream)
    let joined = false
    upstream.on('error', () => {})
    upstream.on('connect', () => {
      joined = true
      client.pipe(upstream).pipe(client)
    })
    upstream.on('close', () => {
      sockets.delete(upstream)
      // Nobody listens there: nothing of the client's has been sent yet.
      if (!joined && tried + 1 < ports.length && !client.destroyed) join(client, first, tried + 1)
      else client.destroy()
    })
    client.on('close', () => upstream.destroy())
  }
  const server = createServer((client) => {
    sockets.add(client)
    client.on('error', () => {}).on('close', () => sockets.delete(client))
    join(client, turn++, 0)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  return {
    port: address !== null && typeof address === 'object' ? address.port : 0,
    async [Symbol.asyncDispose]() {
      const closed = once(server, 'close')
      server.close()
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}
