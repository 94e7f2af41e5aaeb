import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Session } from '@boxoffice/client'
import { Command } from 'commander'
import { type ConnectionFlags, connectTo, withConnection } from '../settings/connection.ts'
import { findSession } from '../settings/open-session.ts'
import { UsageError } from '../settings/usage-error.ts'

type PortForwardFlags = ConnectionFlags & { address: string }

export const portForwardCommand = (): Command =>
  withConnection(new Command('port-forward'))
    .summary('reach ports of a sandbox from this machine')
    .description('Listens here, and connects each connection to a port of the sandbox of a thread. Goes on until it is interrupted.')
    .option('--address <address>', 'where to listen', '127.0.0.1')
    .argument('<thread>', 'thread of the sandbox')
    .argument('<port[:local]...>', 'ports of the sandbox; local: the port here, 0 for any free one. Default: the same number')
    .action(forwardPorts)

const forwardPorts = async (thread: string, pairs: string[], flags: PortForwardFlags): Promise<void> => {
  const wanted = pairs.map(readPair)
  using client = connectTo(flags)
  const session = await findSession(client, thread, { capabilities: ['ports', 'exec'] })
  const servers = []
  for (const { port, local } of wanted) {
    const server = createServer({ allowHalfOpen: true }, (socket) => void carry(session, port, socket))
    server.listen({ host: flags.address, port: local })
    await once(server, 'listening')
    servers.push(server)
    const { address, port: bound } = server.address() as { address: string; port: number }
    process.stdout.write(`${address.includes(':') ? `[${address}]` : address}:${bound} -> ${port}\n`)
  }
  await Promise.race(['SIGINT', 'SIGTERM'].map((signal) => once(process, signal)))
  for (const server of servers) server.close()
}

/** One connection here, and one in the sandbox; what ends one of them ends the other. */
const carry = async (session: Session, port: number, socket: Socket): Promise<void> => {
  socket.on('error', () => {})
  try {
    const connection = await session.ports.connect(port)
    // The types of Node and of the DOM describe the same streams.
    const inside = Duplex.fromWeb(connection as unknown as Parameters<typeof Duplex.fromWeb>[0])
    await Promise.all([pipeline(socket, inside, { end: true }), pipeline(inside, socket)])
  } catch (error) {
    process.stderr.write(`boxoffice: port ${port}: ${error instanceof Error ? error.message : String(error)}\n`)
    socket.resetAndDestroy()
  }
}

const readPair = (text: string): { port: number; local: number } => {
  const [, port, local = port] = /^(\d{1,5})(?::(\d{1,5}))?$/.exec(text) ?? []
  if (port === undefined || Number(port) < 1 || Number(port) > 65_535 || Number(local) > 65_535)
    throw new UsageError(`${JSON.stringify(text)} is no port; PORT or PORT:LOCAL, as 5173:8080`)
  return { port: Number(port), local: Number(local) }
}
