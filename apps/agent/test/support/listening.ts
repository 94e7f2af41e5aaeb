import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'

export type Listening<S> = { server: S; port: number; [Symbol.asyncDispose](): Promise<void> }

/** Lets a server listen on a free port of the loopback; the end of it ends its connections. */
export const listening = async <S extends Server>(server: S, host = '127.0.0.1'): Promise<Listening<S>> => {
  const sockets = new Set<Socket>()
  server.on('connection', (socket) => sockets.add(socket.on('error', () => {})))
  server.listen({ port: 0, host })
  await once(server, 'listening')
  return {
    server,
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}

/** A program of the sandbox that takes connections. */
export const tcp = (accept: (socket: Socket) => void, host?: string): Promise<Listening<Server>> =>
  listening(createServer({ allowHalfOpen: true }, accept), host)

/** A port where nobody listens. */
export const freePort = async (): Promise<number> => {
  await using closed = await tcp(() => {})
  return closed.port
}

/** Bytes that differ along their way. */
export const pattern = (length: number): Buffer => {
  const bytes = Buffer.allocUnsafe(length)
  for (let at = 0; at < length; at++) bytes[at] = (at ^ (at >> 9)) & 0xff
  return bytes
}
