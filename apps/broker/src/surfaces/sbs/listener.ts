import type { IncomingMessage, ServerResponse } from 'node:http'
import { isLoopback } from '@boxoffice/kit/is-loopback'
import { hostInUrl } from '@boxoffice/kit/listen-address'
import { rawResponse } from '@boxoffice/node-http'
import { requestIdFrom } from '@boxoffice/protocol'
import type { Log } from '../../host/log.ts'
import { clientAddress } from '../../http/address.ts'
import type { Metrics } from '../../http/metrics.ts'
import { type Bytes, listen } from '../../http/server.ts'
import { createStepsApp } from './app.ts'
import { anyCaller, ownCaller } from './callers.ts'
import type { Steps } from './steps.ts'

export type StepsListener = { url: string; close(): Promise<void> }
export type StepsListenOptions = { host: string; port: number; maxConnections: number; steps: Steps; metrics: Metrics; log: Log }

/** The surface at the root of a listener of its own, without authentication; its end is the end of every session [3-25, 3-64]. */
export async function listenForSteps({ host, port, maxConnections, steps, metrics, log }: StepsListenOptions): Promise<StepsListener> {
  const app = createStepsApp({ steps, callerOf: anyCaller(clientAddress([])), base: '', metrics, log })
  const server = await listen(app, refusals(isLoopback(host)), { host, port, maxConnections })
  return {
    url: `http://${hostInUrl(host)}:${server.port}`,
    async close() {
      const drained = server.close()
      await steps.closeAll(ownCaller())
      await drained
    },
  }
}

type Refusal = { status: number; detail: string }

/** Takes the requests that are not for the app; no socket is. */
const refusals = (localOnly: boolean): Bytes => ({
  owns: (request) => refusalOf(request, localOnly) !== undefined,
  handle(request: IncomingMessage, response: ServerResponse) {
    const { status, detail } = refusalOf(request, localOnly) ?? NO_SOCKETS
    response.writeHead(status, { ...headersFor(request), connection: 'close' }).end(JSON.stringify({ detail }))
  },
  upgrade: (request, socket) => rawResponse(socket, NO_SOCKETS.status, headersFor(request), JSON.stringify({ detail: NO_SOCKETS.detail })),
})

const headersFor = ({ headers }: IncomingMessage): Record<string, string> => ({
  'content-type': 'application/json',
  'x-request-id': requestIdFrom(headers['x-request-id']),
})
const NO_SOCKETS: Refusal = { status: 404, detail: 'Not Found' }

const READS: ReadonlySet<string | undefined> = new Set(['GET', 'HEAD'])
const OWN_SITES: ReadonlySet<unknown> = new Set([undefined, 'same-origin', 'none'])

/**
 * Nothing else asks who it is, so pages of the web are kept out [3-25]: one whose name was made to mean this machine; and one that needs
 * no answer to do harm, for a browser sends its POST before it asks whether the page may read the response. What changes something is for
 * this listener's own pages, and for programs, which send neither header.
 */
function refusalOf({ method, headers }: IncomingMessage, localOnly: boolean): Refusal | undefined {
  const { origin, host, 'sec-fetch-site': site } = headers
  const name = URL.parse(`http://${host ?? ''}`)?.hostname
  if (localOnly && (name === undefined || !isLoopback(name))) return { status: 400, detail: 'Invalid host header' }
  if (READS.has(method) || (OWN_SITES.has(site) && (origin === undefined || origin === `http://${host}`))) return undefined
  return { status: 403, detail: 'Not for pages of another origin' }
}
