import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { connect, createServer, type Server, type Socket } from 'node:net'

/** The real engine behind a socket that can be taken away with all its connections, as when the engine stops. */
export type StoppableEngine = { up(): Promise<void>; down(): Promise<void>; [Symbol.asyncDispose](): Promise<void> }

const ENGINE = '/var/run/docker.sock'

export const stoppableEngine = (path: string): StoppableEngine => {
  const sockets = new Set<Socket>()
  let server: Server | undefined
  const hold = (socket: Socket): Socket => {
    sockets.add(socket)
    return socket.on('close', () => sockets.delete(socket)).on('error', () => socket.destroy())
  }
  const down = async (): Promise<void> => {
    if (server === undefined) return
    const closed = once(server, 'close')
    server.close()
    for (const socket of sockets) socket.destroy()
    await closed
    server = undefined
    await rm(path, { force: true })
  }
  return {
    async up() {
      server = createServer((client) => {
        const engine = hold(connect(ENGINE))
        hold(client).pipe(engine).pipe(client)
      }).listen(path)
      await once(server, 'listening')
    },
    down,
    [Symbol.asyncDispose]: down,
  }
}

/** Containers of one installation, running or not. */
export const containersOf = (installId: string): string[] =>
  execFileSync('docker', ['ps', '-aq', '--filter', `label=boxoffice.install_id=${installId}`], { encoding: 'utf8' })
    .split('\n')
    .filter((id) => id !== '')
