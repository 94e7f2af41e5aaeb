import type { RequestListener } from 'node:http'
import { BoxofficeError, newRequestId } from '@boxoffice/protocol'
import type { Registry } from 'prom-client'
import { isLoopback } from './config.ts'

export type OperationsOptions = {
  /** Why the agent cannot work now; empty when it can. */
  unreadiness: () => string[]
  metrics: Registry
}

/** `/healthz`, `/readyz` and `/metrics` of the agent; everything else is not found. */
export const operations = ({ unreadiness, metrics }: OperationsOptions): RequestListener => {
  const answers: Record<string, () => Promise<{ status: number; type: string; body: string }>> = {
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
    const open = path !== '/metrics' || isLoopback((request.socket.remoteAddress ?? '').replace(/^::ffff:/, ''))
    const answer = (open ? answers[path] : undefined) ?? notFound
    answer().then(
      ({ status, type, body }) => response.writeHead(status, { 'content-type': type }).end(request.method === 'HEAD' ? undefined : body),
      () => response.writeHead(500).end(),
    )
  }
}

const json = (status: number, body: unknown) => ({ status, type: 'application/json', body: JSON.stringify(body) })

const notFound = async () => json(404, new BoxofficeError('NOT_FOUND', 'no such route').envelope(newRequestId()))
