import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { createOrigins, markAuthenticated, tokenOf } from '@boxoffice/node-http'
import { BoxofficeError, type Capability, fromUnknown, requestIdFrom, type SessionTokenClaims } from '@boxoffice/protocol'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import { type Authenticator, createAuthenticator } from '../auth/auth.ts'
import type { KeySource } from '../auth/keys.ts'
import { requireIn } from '../auth/require.ts'
import type { RevocationStore } from '../auth/revocations.ts'
import type { DiskFloor } from '../host/disk-floor.ts'
import type { Access, AccessJournal } from '../http/access-journal.ts'
import type { Call } from '../http/call.ts'
import type { DataplaneLimits } from '../http/dataplane-limits.ts'
import { createDataplaneMetrics } from '../http/metrics.ts'
import { Query } from '../http/query.ts'
import { refuse } from '../http/responses/respond.ts'
import { ResponseBudget } from '../http/responses/response-budget.ts'
import { createRouter, parseTarget } from '../http/router.ts'
import type { UploadQuotas } from '../http/upload-limit.ts'
import type { Sandbox, SandboxDirectory } from '../sandbox/sandbox.ts'
import { createSocketServer } from '../ws/upgrade.ts'
import { answerPing } from './liveness.ts'
import { dataplaneRoutes } from './routes.ts'

export type DataplaneOptions = {
  sandboxes: SandboxDirectory
  keys: KeySource
  revocations: RevocationStore
  /** The `iss` of valid tokens; undefined until the agent has registered. */
  issuer: () => string | undefined
  /** Of this agent's key: a relayed token for another one is refused. */
  thumbprint: string
  /** Unix seconds by the broker's clock, which judges tokens [C-77]. */
  now: () => number
  /** Web pages that may connect [C-69]. */
  corsOrigins: readonly string[]
  limits: DataplaneLimits
  /** Output that is kept for responses. */
  answers?: ResponseBudget
  /** Told of who comes and who is refused. */
  access: AccessJournal
  disk: DiskFloor
  /** Of workspaces, where they are counted. */
  quotas?: UploadQuotas
  log: Logger
  metrics: Registry
}

/** Everything below `/sandboxes/`, for a server of `node:http`; the server itself belongs to the caller. */
export interface Dataplane {
  /** A listener for `request`. False when the path is not the dataplane's: then nothing has been done with it. */
  handle(incoming: IncomingMessage, outgoing: ServerResponse): boolean
  /** A listener for `upgrade`; what is not a dataplane socket is answered 404. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void
  /** Closes the sockets with 1001 and waits until they are gone. Requests in flight are the server's to drain. */
  close(): Promise<void>
}

export const createDataplane = (options: DataplaneOptions): Dataplane => {
  const { log, access, limits, answers = new ResponseBudget() } = options
  const auth = createAuthenticator(options)
  const origins = createOrigins(options.corsOrigins)
  const metrics = createDataplaneMetrics(options.metrics)
  const router = createRouter(dataplaneRoutes)
  const sockets = createSocketServer({
    auth,
    origins,
    keys: options.keys,
    revocations: options.revocations,
    metrics,
    log,
    now: options.now,
    access,
    limits,
  })

  const running = new Set<Watch>()
  options.revocations.onChange(() => {
    for (const watch of [...running]) tellSessionEnd(auth, watch)
  })

  const serve = async (incoming: IncomingMessage, outgoing: ServerResponse, context: RequestContext): Promise<void> => {
    const { target, requestId } = context
    if (origins.preflight(incoming, outgoing)) return
    origins.expose(incoming, outgoing)
    const token = tokenOf(incoming.headers)
    context.token = token
    if (token === undefined) throw new BoxofficeError('UNAUTHENTICATED', 'A session token is required: Authorization: Bearer <token>')
    // No await for a token that has been seen: a microtask less on the way of every exec.
    const checked = auth.authenticate(token, target.sandboxId)
    const claims = checked instanceof Promise ? await checked : checked
    context.claims = claims
    markAuthenticated(incoming.socket, { tenant: claims.tid, principal: claims.sub })
    const { route, id } = router.match(incoming.method ?? 'GET', target.path)
    context.route = route.path
    context.alias = route.alias === true
    const { requires } = route
    if (requires === null) return answerPing({ outgoing })
    context.requires = requires
    const sandbox = auth.sandbox(claims)
    requireIn(auth, sandbox, claims, requires)
    access.opened(accessOf(incoming, context, claims))
    const detach = route.quiet === true ? undefined : useOf(sandbox)
    const aborter = new AbortController()
    outgoing.once('close', () => {
      detach?.()
      if (!outgoing.writableFinished) aborter.abort(new BoxofficeError('INVALID_REQUEST', 'The client closed the connection'))
      metrics.latency.labels(route.path).observe((performance.now() - context.startedAt) / 1000)
    })
    if (sandbox.lost !== undefined) throw new BoxofficeError('SANDBOX_LOST', 'The sandbox is gone; negotiate again')
    const watch: Watch = { claims, requires, listener: undefined }
    running.add(watch)
    outgoing.once('close', () => running.delete(watch))
    const onSessionEnd: Call['onSessionEnd'] = (listener) => {
      watch.listener = listener
      // It may have ended while the body came in.
      tellSessionEnd(auth, watch)
    }
    await route.handler({
      incoming,
      outgoing,
      requestId,
      claims,
      sandbox,
      query: new Query(target.query),
      id,
      alias: context.alias,
      signal: aborter.signal,
      onSessionEnd,
      limits,
      answers,
      disk: options.disk,
      quotas: options.quotas,
      log,
    })
  }

  const fail = (incoming: IncomingMessage, outgoing: ServerResponse, context: RequestContext, thrown: unknown): void => {
    const error = fromUnknown(thrown)
    metrics.errors.labels(error.code).inc()
    access.refused(accessOf(incoming, context, context.claims), error)
    if (error.code === 'INTERNAL')
      log.error({ err: error.cause ?? error, request_id: context.requestId, route: context.route }, 'request failed')
    if (outgoing.destroyed) return
    const allow = error.code === 'METHOD_NOT_ALLOWED' ? error.details?.allow : undefined
    if (Array.isArray(allow) && !outgoing.headersSent) outgoing.setHeader('Allow', allow.join(', '))
    refuse(incoming, outgoing, { error, requestId: context.requestId, alias: context.alias })
  }

  return {
    handle(incoming, outgoing) {
      const target = parseTarget(incoming.url ?? '/')
      if (target === undefined) return false
      const context: RequestContext = {
        target,
        requestId: requestIdFrom(incoming.headers['x-request-id']),
        route: undefined,
        requires: undefined,
        token: undefined,
        claims: undefined,
        alias: false,
        startedAt: performance.now(),
      }
      outgoing.setHeader('X-Request-Id', context.requestId)
      serve(incoming, outgoing, context).catch((thrown: unknown) => fail(incoming, outgoing, context, thrown))
      return true
    },
    upgrade: sockets.upgrade,
    close: sockets.close,
  }
}

/** Counts a request as a use of the sandbox until the returned function is called. */
const useOf = ({ activity }: Sandbox): (() => void) => {
  activity.touch()
  return activity.attach()
}

/** A request in flight, and who wants to know when its session, token or right ends. */
type Watch = { claims: SessionTokenClaims; requires: Capability; listener: ((reason: BoxofficeError) => void) | undefined }

/** A request was authorised at its start, so expiry meanwhile is nothing [C-27]. */
const tellSessionEnd = (auth: Authenticator, { claims, requires, listener }: Watch): void => {
  if (listener === undefined) return
  try {
    auth.recheck(claims)
    auth.require(claims, requires)
  } catch (thrown) {
    const reason = fromUnknown(thrown)
    if (reason.code !== 'TOKEN_EXPIRED') listener(reason)
  }
}

const accessOf = <C extends SessionTokenClaims | undefined>(
  { socket }: IncomingMessage,
  { target, requestId, requires, token }: RequestContext,
  claims: C,
): Access & { claims: C } => ({
  ...{ sandboxId: target.sandboxId, requestId, transport: 'http', ip: socket.remoteAddress, requires, token, claims },
})

type RequestContext = {
  target: NonNullable<ReturnType<typeof parseTarget>>
  requestId: string
  route: string | undefined
  requires: Capability | undefined
  token: string | undefined
  claims: SessionTokenClaims | undefined
  alias: boolean
  startedAt: number
}
