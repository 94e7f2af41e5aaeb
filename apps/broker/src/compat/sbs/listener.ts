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
  const own = ownPagesOnly(listener)
  const server = createServer(isLoopback(host) ? localNamesOnly(own) : own)
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

const READS: ReadonlySet<string | undefined> = new Set(['GET', 'HEAD'])
const OWN_SITES: ReadonlySet<unknown> = new Set([undefined, 'same-origin', 'none'])

/**
 * A page of the web needs no answer to do harm: a browser sends its POST before it asks whether the page may read the answer. What
 * changes something is for this listener's own pages, and for programs, which send neither header [3-25].
 */
const ownPagesOnly =
  (listener: RequestListener): RequestListener =>
  (request, response) => {
    const { origin, host, 'sec-fetch-site': site } = request.headers
    if (READS.has(request.method) || (OWN_SITES.has(site) && (origin === undefined || origin === `http://${host}`)))
      return listener(request, response)
    response.writeHead(403, { 'content-type': 'application/json', connection: 'close' }).end('{"detail":"Not for pages of another origin"}')
  }
