import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { forwardedAddress } from '@boxoffice/kit/forwarded-address'
import {
  endToEndHeaders,
  framingOf,
  passRequest,
  passUpgrade,
  refusePreview,
  refusePreviewSocket,
  requireForwardable,
  requireForwardableUpgrade,
} from '@boxoffice/node-http'
import { BoxofficeError, fromUnknown, parsePreviewHost, requestIdFrom } from '@boxoffice/protocol'
import type { Log } from '../host/log.ts'
import type { Bytes } from '../http/server.ts'
import type { FoundPreview, PreviewRoutes } from '../previews/routes.ts'
import type { AgentTls } from './http1/agent-tls.ts'
import { createUpstream } from './http1/upstream.ts'
import type { RelayMetrics } from './metrics.ts'

export type PreviewRelayOptions = {
  routes: Pick<PreviewRoutes, 'find'>
  /** Others than this machine's users can reach the broker: what is not isolated is not for them. */
  exposed: boolean
  trustedProxies: readonly string[]
  metrics: RelayMetrics
  agentTls?: AgentTls
  log: Log
}

/** Preview hosts at the broker: it finds the agent by the label and passes bytes; who may come is the agent's to say. */
export type PreviewRelay = Bytes & {
  /** Cuts the WebSockets. */
  closeSockets(): void
  /** Gives up the connections to agents, when nothing is in flight any more. */
  close(): void
}

export function createPreviewRelay({ routes, exposed, trustedProxies, metrics, agentTls, log }: PreviewRelayOptions): PreviewRelay {
  const upstream = createUpstream(agentTls)
  const sockets = new Set<Duplex>()
  const trusted = new Set(trustedProxies)

  const find = async ({ headers }: IncomingMessage): Promise<FoundPreview> => {
    const found = await routes.find(headers.host ?? '')
    if (found === undefined) throw new BoxofficeError('SESSION_EXPIRED', 'There is no preview here, or none any more; ask for another link')
    const { agent } = found
    if (agent.relay === 'never' || (exposed && agent.provider.isolation === 'none'))
      throw new BoxofficeError('BACKEND_UNAVAILABLE', 'the agent of this preview is reached directly only')
    return found
  }

  const begin = ({ agent }: FoundPreview, incoming: IncomingMessage, isUpgrade: boolean) =>
    upstream.request(agent, {
      method: incoming.method ?? 'GET',
      path: incoming.url ?? '/',
      headers: requestHeaders(incoming, isUpgrade, trusted),
    })

  const told = (thrown: unknown, requestId: string): BoxofficeError => {
    const error = thrown instanceof BoxofficeError ? thrown : isOfNetwork(thrown) ? unreachable(thrown) : fromUnknown(thrown)
    metrics.refused(error.code)
    if (error.status >= 500) log.warn({ err: error.cause ?? error, request_id: requestId, code: error.code }, 'a preview was not relayed')
    return error
  }

  return {
    owns: ({ headers }) => parsePreviewHost(headers.host) !== undefined,
    handle(incoming, outgoing: ServerResponse) {
      const requestId = requestIdFrom(incoming.headers['x-request-id'])
      const serve = async (): Promise<void> => {
        requireForwardable(incoming)
        const found = await find(incoming)
        if (incoming.headers.expect !== undefined) outgoing.writeContinue()
        await passRequest({ incoming, outgoing, begin: () => begin(found, incoming, false), headersOf })
      }
      serve().catch((thrown: unknown) => refusePreview(incoming, outgoing, told(thrown, requestId), requestId))
    },
    upgrade(incoming, socket, head) {
      const requestId = requestIdFrom(incoming.headers['x-request-id'])
      socket.on('error', () => {})
      sockets.add(socket.once('close', () => sockets.delete(socket)))
      const serve = async (): Promise<void> => {
        requireForwardableUpgrade(incoming)
        const found = await find(incoming)
        if (socket.destroyed) return
        await passUpgrade({ socket, head, upstream: begin(found, incoming, true), headersOf })
      }
      serve().catch((thrown: unknown) => refusePreviewSocket(socket, told(thrown, requestId), requestId))
    },
    closeSockets() {
      for (const socket of [...sockets]) socket.destroy()
    },
    close: upstream.close,
  }
}

/**
 * As they came, `Host` and cookies too: the agent knows its previews by the one, and who comes by the others. An agent that trusts this
 * broker as a proxy tells programs who asked it.
 */
const requestHeaders = (incoming: IncomingMessage, isUpgrade: boolean, trusted: ReadonlySet<string>): string[] => {
  const { headers, socket, rawHeaders } = incoming
  const forwardedFor = headers['x-forwarded-for']
  const kept = ['X-Forwarded-For', forwardedAddress(socket.remoteAddress, [forwardedFor].flat().join(','), trusted)]
  for (const [name, value, lower] of endToEndHeaders(rawHeaders, headers.connection))
    if (lower !== 'x-forwarded-for') kept.push(name, value)
  return [...kept, ...framingOf(headers, isUpgrade)]
}

const headersOf = ({ rawHeaders, headers }: IncomingMessage): string[] => {
  const kept: string[] = []
  for (const [name, value] of endToEndHeaders(rawHeaders, headers.connection)) kept.push(name, value)
  return kept
}

const isOfNetwork = (thrown: unknown): boolean => thrown instanceof Error && 'code' in thrown

const unreachable = (cause: unknown): BoxofficeError =>
  new BoxofficeError('BACKEND_UNAVAILABLE', 'the agent of this preview cannot be reached; try again', { retryAfter: 2, cause })
