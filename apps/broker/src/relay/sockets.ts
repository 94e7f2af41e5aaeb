import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import {
  markAuthenticated,
  OpenSockets,
  type Origins,
  offeredProtocols,
  requireSingleHeaders,
  sayGoodbye,
  subprotocolToken,
  tokenOf,
} from '@boxoffice/node-http'
import {
  BoxofficeError,
  executeError,
  fromUnknown,
  LIMITS,
  PROCESS_LIMITS,
  requestIdFrom,
  SUBPROTOCOL,
  SUBPROTOCOL_BINARY,
  SUBPROTOCOL_LINES,
  SUBPROTOCOL_MCP,
} from '@boxoffice/protocol'
import { WebSocketServer } from 'ws'
import { EXECUTE_SOCKET, isAlias, isRelayed, noRoute, parseTarget, sandboxPath } from '../agents/endpoint.ts'
import type { Log } from '../host/log.ts'
import { unauthenticated } from '../tokens/credentials.ts'
import type { Connections } from './http1/connections.ts'
import { refuseRetargeting } from './http1/headers.ts'
import type { RelayMetrics } from './metrics.ts'
import { refuseUpgrade } from './respond.ts'
import { type AuthorizedSession, holderOf, type SessionAuthorizer } from './session-authorizer.ts'
import { RelayedSocket } from './socket.ts'
import { type AgentWebSocket, openAgentWebSocket } from './ws/agent-websocket.ts'

export type RelaySocketsOptions = {
  authorizer: SessionAuthorizer
  origins: Origins
  connections: Connections
  metrics: RelayMetrics
  log: Log
}

/** The WebSockets of the relay. */
export interface RelaySockets {
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void
  /** Closes every socket with 1001 and resolves when all are gone. */
  close(): Promise<void>
}

/** Sockets of the dataplane. Without a token nobody is asked what is there, so the relay has to know. */
const ROUTES = /^(?:exec|shell)\/ws$/
/** Those of managed processes: any text message may be a line, so who comes says so before the upgrade. */
const LINES = /^processes\/[^/]+\/ws$/
/** Those of a watch and of ports, which begin before the upgrade too. */
const WHOLE = /^(?:files\/watch|ports\/[^/]+)$/
/** By kind, what a client may offer, the best first, and how long a message may be. */
const FRAME_PROTOCOLS = [SUBPROTOCOL_BINARY, SUBPROTOCOL]
const LINE_PROTOCOLS = [SUBPROTOCOL_LINES, SUBPROTOCOL_MCP]
const UNAUTHORIZED = 401
const MAX_LINE_MESSAGE_BYTES = PROCESS_LIMITS.lineBytes + 1024

const isOfWhole = (url: string | undefined): boolean => {
  const path = isRelayed(url) ? parseTarget(url ?? '/').path : undefined
  return path !== undefined && WHOLE.test(path)
}

export function createRelaySockets(options: RelaySocketsOptions): RelaySockets {
  const { authorizer, origins, connections, metrics, log } = options
  const sockets = new OpenSockets<RelayedSocket>()
  const server = (protocols: readonly string[], maxPayload: number): WebSocketServer =>
    new WebSocketServer({
      noServer: true,
      clientTracking: false,
      perMessageDeflate: false,
      maxPayload,
      handleProtocols: (offered) => protocols.find((name) => offered.has(name)) ?? false,
    })
  const ofFrames = server(FRAME_PROTOCOLS, LIMITS.messageBytes)
  /** For who authenticates by a frame. */
  const ofStrangers = server(FRAME_PROTOCOLS, LIMITS.messageBytesBeforeAuth)
  const ofLines = server(LINE_PROTOCOLS, MAX_LINE_MESSAGE_BYTES)

  const open = async (
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    { requestId, signal, caller }: { requestId: string; signal: AbortSignal; caller: { isKnown: boolean } },
  ): Promise<void> => {
    if (!isRelayed(request.url)) throw new BoxofficeError('NOT_FOUND', 'there is no socket here; sockets are below ws_base_url')
    requireSingleHeaders(request)
    refuseRetargeting(request.headers)
    const { sessionId, path, query } = parseTarget(request.url ?? '/')
    if (path === undefined || !(path.endsWith('/ws') || WHOLE.test(path))) throw noRoute()
    if (!origins.allowed(request)) throw new BoxofficeError('FORBIDDEN', 'this origin may not connect; list it in cors_origins')
    if (sockets.closing) throw new BoxofficeError('BACKEND_UNAVAILABLE', 'the broker is restarting; try again', { retryAfter: 1 })
    const lines = LINES.test(path)
    const protocols = lines ? LINE_PROTOCOLS : FRAME_PROTOCOLS
    const offered = offeredProtocols(request.headers)
    const link = (authorized: AuthorizedSession, until: AbortSignal): Promise<AgentWebSocket> =>
      openAgentWebSocket({
        ...{ connections, authorized, requestId, signal: until, headers: request.headers },
        path: sandboxPath(authorized.session.sandboxId, path, query),
        protocols: offered.filter((name) => protocols.includes(name)),
      })
    const accept = (begin: (relayed: RelayedSocket) => void, known = true): void =>
      (lines ? ofLines : known ? ofFrames : ofStrangers).handleUpgrade(request, socket, head, (ws) => {
        const relayed = new RelayedSocket({
          ...{ ws, socket, requestId, log, lines, alias: path === EXECUTE_SOCKET, open: link },
          authorize: (token, renews) => authorizer.authorize(sessionId, token, renews),
        })
        begin(relayed)
        sockets.add(relayed, ws)
      })

    const token = tokenOf(request.headers) ?? subprotocolToken(offered)
    if (token === undefined && (lines || WHOLE.test(path) || path === EXECUTE_SOCKET))
      throw unauthenticated('a session token is required: Authorization: Bearer <token>, or the subprotocol bearer.<token>')
    if (token === undefined) {
      if (!ROUTES.test(path)) throw noRoute()
      if (new URLSearchParams(query).has('token'))
        throw unauthenticated('a token in the query is not read; send Authorization: Bearer <token>, or the subprotocol bearer.<token>')
      if (!(await authorizer.exists(sessionId))) throw new BoxofficeError('NOT_FOUND', 'there is no such session; negotiate again')
      if (socket.destroyed) return
      return accept((relayed) => relayed.awaitAuth(), false)
    }
    const authorized = await authorizer.authorize(sessionId, token)
    caller.isKnown = true
    markAuthenticated(socket, holderOf(authorized))
    const agent = await link(authorized, signal)
    if (socket.destroyed) return void agent.connection.destroy()
    accept((relayed) => relayed.begin(authorized.claims, agent))
  }

  const serve = async (request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> => {
    const requestId = requestIdFrom(request.headers['x-request-id'])
    const aborter = new AbortController()
    const clientAborted = (): void => aborter.abort()
    socket.on('close', clientAborted).on('error', clientAborted)
    const caller = { isKnown: false }
    try {
      await open(request, socket, head, { requestId, signal: aborter.signal, caller })
    } catch (thrown) {
      const error = fromUnknown(thrown)
      metrics.refused(error.code)
      if (error.code === 'INTERNAL') log.error({ err: error.cause ?? error, request_id: requestId }, 'an upgrade failed')
      const alias = isRelayed(request.url) && isAlias(request.url)
      // Clients of `execute/ws` look for a refused credential in a frame.
      if (alias && error.status === UNAUTHORIZED && socket.writable)
        ofStrangers.handleUpgrade(request, socket, head, (ws) => sayGoodbye(ws, executeError(error), error.closeCode, error.code))
      else if (caller.isKnown && isOfWhole(request.url) && tokenOf(request.headers) === undefined && socket.writable) {
        // A browser does not tell its program why an upgrade was refused. It has its token in the subprotocols.
        const frame = { type: 'error', error: error.envelope(requestId).error }
        ofFrames.handleUpgrade(request, socket, head, (ws) => sayGoodbye(ws, frame, error.closeCode, error.code))
      } else refuseUpgrade(socket, error, requestId, alias)
    } finally {
      socket.off('close', clientAborted).off('error', clientAborted)
    }
  }

  return {
    upgrade: (request, socket, head) => void serve(request, socket, head),
    async close() {
      await sockets.close()
      ofFrames.close()
      ofStrangers.close()
      ofLines.close()
    },
  }
}
