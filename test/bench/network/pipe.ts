import { type AddressInfo, connect, createServer } from 'node:net'

// The least that a proxy in Node can be: two sockets and `pipe`. Its arguments are host and port of the origin; it prints its own port.
const [host = '', port] = process.argv.slice(2)

const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
  const origin = connect({ host, port: Number(port), allowHalfOpen: true, noDelay: true })
  for (const socket of [client, origin]) socket.on('error', () => socket.destroy())
  client.pipe(origin)
  origin.pipe(client)
})
server.listen(0, '127.0.0.1', () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`))
