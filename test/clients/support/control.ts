import { once } from 'node:events'
import { createServer } from 'node:http'
import type { Stack } from '../../e2e/support/stack.ts'

/** Lets a client in another process cut connections and end programs: `POST /NAME` answers when that is done. */
export const startControl = async (stack: Stack): Promise<{ url: string } & AsyncDisposable> => {
  const actions: Record<string, () => unknown> = {
    cut: () => stack.cutConnections(),
    block: () => stack.proxy.block(),
    unblock: () => stack.proxy.unblock(),
    'restart-agent': async () => {
      await stack.agent().kill('SIGKILL')
      await stack.startAgent()
    },
    'restart-broker': async () => {
      await stack.broker().kill('SIGKILL')
      await stack.startBroker()
    },
  }
  const server = createServer((request, response) => {
    const action = actions[(request.url ?? '').slice(1)]
    Promise.resolve(action?.()).then(
      () => response.writeHead(action === undefined ? 404 : 204).end(),
      (error: unknown) => response.writeHead(500).end(String(error)),
    )
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const port = address !== null && typeof address === 'object' ? address.port : 0
  return {
    url: `http://127.0.0.1:${port}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
