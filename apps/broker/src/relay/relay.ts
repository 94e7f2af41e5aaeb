import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { createOrigins, markAuthenticated, tokenOf } from '@boxoffice/node-http'
import { fromUnknown, requestIdFrom } from '@boxoffice/protocol'
import { isAlias, isRelayed, noRoute, parseTarget, sandboxPath } from '../agents/endpoint.ts'
import type { Log } from '../host/log.ts'
import { unauthenticated } from '../tokens/credentials.ts'
import { forward } from './http.ts'
import type { AgentTls } from './http1/agent-tls.ts'
import { createConnections } from './http1/connections.ts'
import { refuseRetargeting } from './http1/headers.ts'
import type { RelayMetrics } from './metrics.ts'
import { refuse } from './respond.ts'
import { holderOf, type SessionAuthorizer } from './session-authorizer.ts'
import { createRelaySockets } from './sockets.ts'
import type { UploadSpliceOptions } from './upload-splice.ts'

export type RelayOptions = {
  authorizer: SessionAuthorizer
  corsOrigins: readonly string[]
  metrics: RelayMetrics
  log: Log
  agentTls?: AgentTls
  splice?: UploadSpliceOptions | undefined
}

/**
 * The dataplane through the broker (contract 3.11): same paths, same frames, for a server of `node:http` that belongs to the caller.
 * It checks who asks and for which session, and passes bytes; what they mean is between client and agent.
 */
export interface Relay {
  /** Whether a request is the relay's to answer. */
  owns(request: IncomingMessage): boolean
  /** A listener for `request`. */
  handle(incoming: IncomingMessage, outgoing: ServerResponse): void
  /** A listener for `upgrade`; what is no socket of the relay is answered 404. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void
  /** Closes the sockets with 1001 and waits until they are gone. Requests in flight are the server's to drain. */
  closeSockets(): Promise<void>
  /** Gives up the connections to agents, when nothing is in flight any more. */
  close(): void
}

export function createRelay({ authorizer, corsOrigins, metrics, log, agentTls, splice }: RelayOptions): Relay {
  const connections = createConnections(agentTls)
  const origins = createOrigins(corsOrigins)
  const sockets = createRelaySockets({ authorizer, origins, connections, metrics, log })

  const serve = async (incoming: IncomingMessage, outgoing: ServerResponse, requestId: string): Promise<void> => {
    refuseRetargeting(incoming.headers)
    const { sessionId, path, query } = parseTarget(incoming.url ?? '/')
    if (origins.preflight(incoming, outgoing, { 'X-Request-Id': requestId })) return
    origins.expose(incoming, outgoing)
    const token = tokenOf(incoming.headers)
    if (token === undefined) throw unauthenticated('a session token is required: Authorization: Bearer <token>')
    const authorized = await authorizer.authorize(sessionId, token)
    markAuthenticated(incoming.socket, holderOf(authorized))
    if (path === undefined) throw noRoute()
    await forward({
      incoming,
      outgoing,
      authorized,
      requestId,
      connections,
      splice,
      path: sandboxPath(authorized.session.sandboxId, path, query),
    })
  }

  const fail = (incoming: IncomingMessage, outgoing: ServerResponse, requestId: string, thrown: unknown): void => {
    const error = fromUnknown(thrown)
    metrics.refused(error.code)
    if (outgoing.destroyed) return
    if (error.status >= 500)
      log[error.code === 'INTERNAL' ? 'error' : 'warn'](
        { err: error.cause ?? error, request_id: requestId, code: error.code },
        error.message,
      )
    refuse(incoming, outgoing, { error, requestId, alias: isAlias(incoming.url) })
  }

  return {
    owns: ({ url }) => isRelayed(url),
    handle(incoming, outgoing) {
      const started = performance.now()
      const requestId = requestIdFrom(incoming.headers['x-request-id'])
      outgoing.once('close', () =>
        metrics.observe(incoming.method ?? '', 'relay', outgoing.statusCode, (performance.now() - started) / 1000),
      )
      serve(incoming, outgoing, requestId).catch((thrown: unknown) => fail(incoming, outgoing, requestId, thrown))
    },
    upgrade: sockets.upgrade,
    closeSockets: sockets.close,
    close: connections.close,
  }
}
