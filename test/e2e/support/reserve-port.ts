import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'

/** Ports below those that Linux gives to `listen(0)` and to connections: nobody gets one of them by chance. */
const [firstOfLinux = 32_768] = readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8').split(/\s+/).map(Number)
const COUNT = 12_000

/**
 * A TCP port for programs that must come back on the same one, free at 127.0.0.1 and not given to another test of this host before
 * this process ends. A port that was only free a moment ago could be anybody's connection a moment later.
 */
export const reservePort = async (): Promise<number> => {
  for (;;) {
    const port = firstOfLinux - 1 - Math.floor(Math.random() * COUNT)
    // An abstract socket: one holder, and none once the process has ended.
    if ((await listens({ path: `\0boxoffice-test-port-${port}` }, true)) && (await listens({ port, host: '127.0.0.1' }, false))) return port
  }
}

const listens = async (where: { path: string } | { port: number; host: string }, stays: boolean): Promise<boolean> => {
  const server = createServer().listen(where)
  try {
    await once(server, 'listening')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE') return false
    throw error
  }
  if (stays) server.unref()
  else await new Promise((resolve) => server.close(resolve))
  return true
}
