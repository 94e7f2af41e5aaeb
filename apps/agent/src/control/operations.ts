import type { RequestListener } from 'node:http'
import { isLoopback } from '@boxoffice/kit/is-loopback'
import { finish, hasUnread } from '@boxoffice/node-http'
import { BoxofficeError, newRequestId } from '@boxoffice/protocol'
import type { Registry } from 'prom-client'

export type OperationsOptions = {
  /** Why the agent cannot work now; empty when it can. */
  unreadiness: () => string[]
  metrics: Registry
}

type OperationsResponse = { status: number; type: string; body: string; headers?: Record<string, string> }

/** `/healthz`, `/readyz` and `/metrics` of the agent; everything else is not found. */
export const operations = ({ unreadiness, metrics }: OperationsOptions): RequestListener => {
  const answers: Record<string, () => Promise<OperationsResponse>> = {
    '/healthz': async () => json(200, { status: 'ok' }),
    '/readyz': async () => {
      const reasons = unreadiness()
      return reasons.length === 0 ? json(200, { status: 'ready' }) : json(503, { status: 'not_ready', reasons })
    },
    '/metrics': async () => ({ status: 200, type: metrics.contentType, body: await metrics.metrics() }),
  }
  return (request, response) => {
    const path = (request.url ?? '/').split('?')[0] ?? '/'
    // Numbers about tenants' work are for the operator of this host.
    const open = path !== '/metrics' || isLoopback(request.socket.remoteAddress ?? '')
    const answer = (open ? answers[path] : undefined) ?? notFound
    answer().then(
      ({ status, type, body, headers }) => {
        // A body that nobody asked for may come for as long as its sender likes.
        const closing = hasUnread(request) ? { connection: 'close' } : {}
        response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(body), ...headers, ...closing })
        if (request.method !== 'HEAD') response.write(body)
        finish(request, response)
      },
      () => response.writeHead(500).end(),
    )
  }
}

const json = (status: number, body: unknown) => ({ status, type: 'application/json', body: JSON.stringify(body) })

const notFound = async (): Promise<OperationsResponse> => {
  const requestId = newRequestId()
  const error = new BoxofficeError(
    'NOT_FOUND',
    "there is no such route here; the dataplane is below /sandboxes/, sessions are the broker's",
  )
  return { ...json(404, error.envelope(requestId)), headers: { 'x-request-id': requestId } }
}
