import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { drainable } from '@boxoffice/node-http'
import { getRequestListener } from '@hono/node-server'
import { isLoopback } from '../../config.ts'
import { clientAddress } from '../../http/address.ts'
import { cannotListen } from '../../http/server.ts'
import type { Log } from '../../log.ts'
import { createStepsApp } from './app.ts'
import { anyCaller, ownCaller } from './callers.ts'
import type { Steps } from './steps.ts'

export type StepsListener = { url: string; close(): Promise<void> }
export type StepsListenOptions = { host: string; port: number; steps: Steps; log: Log }

const DRAIN_MS = 5000

/** The surface at the root of a listener of its own, without authentication; its end is the end of every session [3-25, 3-64]. */
export async function listenForSteps({ host, port, steps, log }: StepsListenOptions): Promise<StepsListener> {
  const app = createStepsApp({ steps, callerOf: anyCaller(clientAddress([])), base: '', log })
  const listener = getRequestListener(app.fetch as (request: Request) => Response | Promise<Response>)
  const server = createServer(isLoopback(host) ? localNamesOnly(listener) : listener)
  const drain = drainable(server, 'connection', DRAIN_MS)
  await new Promise<void>((resolve, reject) => {
    server.once('error', (thrown: NodeJS.ErrnoException) => reject(cannotListen(thrown, host, port)))
    server.listen(port, host, resolve)
  })
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${(server.address() as AddressInfo).port}`,
    async close() {
      const drained = drain()
      await steps.closeAll(ownCaller())
      await drained
    },
  }
}

/** A page of the web whose name was made to mean this machine is not let in: nothing else asks who it is. */
const localNamesOnly =
  (listener: RequestListener): RequestListener =>
  (request, response) => {
    const name = URL.parse(`http://${request.headers.host ?? ''}`)?.hostname
    if (name !== undefined && isLoopback(name)) return listener(request, response)
    response.writeHead(400, { 'content-type': 'application/json', connection: 'close' }).end('{"detail":"Invalid host header"}')
  }
