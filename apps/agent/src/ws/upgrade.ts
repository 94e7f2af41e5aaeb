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
  requestIdFrom,
  type SessionTokenClaims,
  SUBPROTOCOL,
  SUBPROTOCOL_BINARY,
} from '@boxoffice/protocol'
import type { Logger } from 'pino'
import { WebSocketServer } from 'ws'
import type { Authenticator } from '../auth/auth.ts'
import type { KeySource } from '../auth/keys.ts'
import { requireIn } from '../auth/require.ts'
import type { RevocationStore } from '../auth/revocations.ts'
import type { Access, AccessJournal } from '../http/access-journal.ts'
import type { DataplaneLimits } from '../http/dataplane-limits.ts'
import type { DataplaneMetrics } from '../http/metrics.ts'
import { refuseUpgrade } from '../http/responses/respond.ts'
import { parseTarget, type Target } from '../http/router.ts'
import { createAttachments } from './attachments.ts'
import { ClientSocket } from './client-socket.ts'
import { EXECUTE_DIALECT, OWN_DIALECT } from './dialect.ts'
import type { SocketKind } from './frames.ts'
import { PORT_SOCKET, portIn, preparePort } from './ports/port-upgrade.ts'
import { lineServer, PROCESS_SOCKET, prepareProcess, processIn } from './processes/process-upgrade.ts'
import type { SocketSession } from './session/socket-session.ts'
import { prepareWatch, WATCH_SOCKET } from './watch/watch-upgrade.ts'

export type SocketServerOptions = {
  auth: Authenticator
  origins: Origins
  keys: Pick<KeySource, 'onWithdrawal'>
  revocations: RevocationStore
  metrics: DataplaneMetrics
  access: AccessJournal
  /** Unix seconds by the broker's clock. */
  now: () => number
  limits: DataplaneLimits
  log: Logger
}

/** The WebSockets of the dataplane: `exec/ws` and its alias `execute/ws`, `shell/ws`, `processes/{id}/ws`, `files/watch` and `ports/{port}`. */
export interface SocketServer {
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void
  /** Closes every socket with 1001 and resolves when all are gone. */
  close(): Promise<void>
}

/** The alias of LangSmith's clients (contract 7.4). */
const EXECUTE = 'execute/ws'
const KINDS: Readonly<Record<string, SocketKind>> = { 'exec/ws': 'exec', [EXECUTE]: 'exec', 'shell/ws': 'shell' }
/** The paths of all sockets, as `Route.path`. */
export const socketPaths: readonly string[] = [...Object.keys(KINDS), PROCESS_SOCKET, WATCH_SOCKET, PORT_SOCKET]

export const createSocketServer = (options: SocketServerOptions): SocketServer => {
  const { auth, origins, keys, revocations, metrics, access, log, now, limits } = options
  const attachments = createAttachments()
  const clients = new OpenSockets<SocketSession>()
  const server = (maxPayload: number): WebSocketServer =>
    new WebSocketServer({
      noServer: true,
      clientTracking: false,
      perMessageDeflate: false,
      maxPayload,
      handleProtocols: (offered) => (offered.has(SUBPROTOCOL_BINARY) ? SUBPROTOCOL_BINARY : offered.has(SUBPROTOCOL) ? SUBPROTOCOL : false),
    })
  const known = server(LIMITS.messageBytes)
  /** For who authenticates by a frame. */
  const strangers = server(LIMITS.messageBytesBeforeAuth)
  const lines = lineServer()
  const recheck = (): void => {
    for (const client of clients) client.recheck()
  }
  const offRevocations = revocations.onChange(recheck)
  const offWithdrawals = keys.onWithdrawal(recheck)

  /** What must hold before the upgrade; with a token that includes a sandbox that can be spoken to [C-38]. */
  const admit = async (request: IncomingMessage, signal: AbortSignal, caller: Access): Promise<Admitted> => {
    requireSingleHeaders(request)
    const target = parseTarget(request.url ?? '/')
    const processId = target === undefined ? undefined : processIn(target.path)
    const watches = target?.path === WATCH_SOCKET
    const port = target === undefined ? undefined : portIn(target.path)
    const isWhole = processId !== undefined || watches || port !== undefined
    const kind = target === undefined ? undefined : isWhole ? 'exec' : KINDS[target.path]
    if (target === undefined || kind === undefined)
      throw new BoxofficeError(
        'NOT_FOUND',
        'No such socket; ws_base_url ends in /v1, append /exec/ws, /shell/ws, /processes/{id}/ws, /files/watch or /ports/{port}',
      )
    if (!origins.allowed(request)) throw new BoxofficeError('FORBIDDEN', 'This origin may not connect; list it in cors_origins')
    if (clients.closing) throw new BoxofficeError('BACKEND_UNAVAILABLE', 'The agent is restarting; try again', { retryAfter: 1 })
    const requires = watches ? 'fs_read' : port !== undefined ? 'ports' : kind
    caller.requires = requires
    const token = tokenOf(request.headers) ?? subprotocolToken(offeredProtocols(request.headers))
    caller.token = token
    if (token === undefined && (isWhole || target.path === EXECUTE))
      throw new BoxofficeError(
        'UNAUTHENTICATED',
        'A session token is required: Authorization: Bearer <token>, or the subprotocol bearer.<token>',
      )
    if (token === undefined) {
      if (new URLSearchParams(target.query).has('token')) throw queryToken()
      if (!auth.exists(target.sandboxId)) throw new BoxofficeError('NOT_FOUND', 'There is no such sandbox; negotiate again')
      return { kind, target, claims: undefined, processId, port, isWhole }
    }
    const claims = await auth.authenticate(token, target.sandboxId)
    caller.claims = claims
    markAuthenticated(request.socket, { tenant: claims.tid, principal: claims.sub })
    const sandbox = auth.sandbox(claims)
    if (sandbox.lost !== undefined) throw new BoxofficeError('SANDBOX_LOST', 'The sandbox is gone; negotiate again')
    limits.wsOpen(claims)
    if (isWhole) requireIn(auth, sandbox, claims, requires)
    await sandbox.ready(signal)
    return { kind, target, claims, processId, port, isWhole }
  }

  /** Sockets that are for one thing: it is there before the upgrade, or the upgrade is refused. */
  const openWhole = async (
    { target, processId, port, claims }: Admitted & { claims: SessionTokenClaims },
    { request, socket, head, requestId }: { request: IncomingMessage; socket: Duplex; head: Buffer; requestId: string },
    signal: AbortSignal,
    opened: () => void,
  ): Promise<void> => {
    const options = { sandbox: auth.sandbox(claims), claims, requestId, auth, now }
    const search = target.query
    const prepared =
      processId !== undefined
        ? await prepareProcess(options, { processId, search, takenOver: () => socket.destroy() })
        : port !== undefined
          ? await preparePort(options, { written: port, search, signal })
          : await prepareWatch(options, { search, signal })
    if (socket.destroyed) return prepared.discard()
    opened()
    let isUpgraded = false
    const wss = processId === undefined ? known : lines
    wss.handleUpgrade(request, socket, head, (ws) => {
      isUpgraded = true
      metrics.sockets.labels(prepared.kind).inc()
      clients.add(prepared.socket(ws).session, ws)
    })
    // Its handshake was not one of a WebSocket, and has been refused.
    if (!isUpgraded) prepared.discard()
  }

  const open = async (request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> => {
    const requestId = requestIdFrom(request.headers['x-request-id'])
    const caller: Access = {
      ...{ sandboxId: parseTarget(request.url ?? '/')?.sandboxId ?? '', requestId, transport: 'ws', ip: request.socket.remoteAddress },
      ...{ requires: undefined, token: undefined, claims: undefined },
    }
    const aborter = new AbortController()
    const clientAborted = (): void => aborter.abort()
    socket.on('close', clientAborted)
    socket.on('error', clientAborted)
    try {
      const admitted = await admit(request, aborter.signal, caller)
      const { kind, target, claims } = admitted
      if (socket.destroyed) return
      if (claims !== undefined && admitted.isWhole) {
        const opened = (): void => access.opened({ ...caller, claims })
        return await openWhole({ ...admitted, claims }, { request, socket, head, requestId }, aborter.signal, opened)
      }
      if (claims !== undefined) access.opened({ ...caller, claims })
      const wss = claims === undefined ? strangers : known
      wss.handleUpgrade(request, socket, head, (ws) => {
        metrics.sockets.labels(kind).inc()
        const alias = target.path === EXECUTE
        const binary = !alias && ws.protocol === SUBPROTOCOL_BINARY
        const client = new ClientSocket({
          ws,
          socket,
          kind,
          binary,
          dialect: alias ? EXECUTE_DIALECT : OWN_DIALECT,
          sandboxId: target.sandboxId,
          requestId,
          claims,
          auth,
          attachments,
          opened: (claims, token) => access.opened({ ...caller, claims, token }),
          refused: (error, claims) => access.refused({ ...caller, claims, token: undefined }, error),
          metrics,
          now,
          limits,
          log,
        })
        clients.add(client.session, ws)
      })
    } catch (thrown) {
      const error = fromUnknown(thrown)
      metrics.errors.labels(error.code).inc()
      access.refused(caller, error)
      if (error.code === 'INTERNAL') log.error({ err: error.cause ?? error, request_id: requestId }, 'upgrade failed')
      const path = parseTarget(request.url ?? '/')?.path
      const alias = path === EXECUTE
      // Its clients look for a refused credential in a frame.
      if (alias && error.status === UNAUTHORIZED && socket.writable)
        strangers.handleUpgrade(request, socket, head, (ws) => sayGoodbye(ws, executeError(error), error.closeCode, error.code))
      else if (
        path !== undefined &&
        (path === WATCH_SOCKET || portIn(path) !== undefined) &&
        caller.claims !== undefined &&
        hidesRefusals(request) &&
        socket.writable
      ) {
        const frame = { type: 'error', error: error.envelope(requestId).error }
        known.handleUpgrade(request, socket, head, (ws) => sayGoodbye(ws, frame, error.closeCode, error.code))
      } else refuseUpgrade(socket, error, requestId, alias)
    } finally {
      socket.off('close', clientAborted)
      socket.off('error', clientAborted)
    }
  }

  return {
    upgrade: (request, socket, head) => void open(request, socket, head),
    async close() {
      offRevocations()
      offWithdrawals()
      await clients.close()
      known.close()
      strangers.close()
      lines.close()
    },
  }
}

const UNAUTHORIZED = 401

/** A browser does not tell its program why an upgrade was refused. It has its token in the subprotocols. */
const hidesRefusals = ({ headers }: IncomingMessage): boolean => tokenOf(headers) === undefined

/** Of no use, and in every log on the way [4-57]. */
const queryToken = (): BoxofficeError =>
  new BoxofficeError(
    'UNAUTHENTICATED',
    'A token in the query is not read; send Authorization: Bearer <token>, or the subprotocol bearer.<token>',
  )

/** `processId`: the socket is that of a managed process. `port`: it is that of a port, as the path has it. `isWhole`: it is for one thing only. */
type Admitted = {
  kind: SocketKind
  target: Target
  claims: SessionTokenClaims | undefined
  processId: string | undefined
  port: string | undefined
  isWhole: boolean
}
