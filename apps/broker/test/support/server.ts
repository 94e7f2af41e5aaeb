import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A call as a server of a test got it. */
export type Received = { method: string; path: string; headers: IncomingMessage['headers']; body: string }

/**
 * A real HTTP server on loopback that a test answers for: a LangGraph server, a webhook, an identity provider. `answer` may
 * keep a request open for as long as it wants.
 */
export async function startServer(answer: (request: Received, response: ServerResponse) => void | Promise<void>) {
  const received: Received[] = []
  let waiting: (() => void)[] = []
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    const call = { method: request.method ?? '', path: request.url ?? '', headers: request.headers, body }
    received.push(call)
    for (const resolve of waiting.splice(0)) resolve()
    await answer(call, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    /** Resolves when it has got `count` calls. */
    async got(count: number): Promise<void> {
      while (received.length < count) await new Promise<void>((resolve) => waiting.push(resolve))
    },
    async close() {
      waiting = []
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

export const json = (response: ServerResponse, status: number, body: unknown): void => {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}
