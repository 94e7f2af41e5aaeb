import {
  type AgentInstance,
  BoxofficeError,
  CreateSandboxRequest,
  DestroyQuery,
  describeIssues,
  fromUnknown,
  Jwks,
  LIMITS,
  ReplacePreviews,
  ResumeRequest,
  Revocations,
  requestIdFrom,
  type SandboxEgressSet,
  type SandboxUntold,
  SetSandboxEgress,
  SuspendRequest,
} from '@boxoffice/protocol'
import { type Context, Hono, type MiddlewareHandler } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import type { Logger } from 'pino'
import { z } from 'zod'
import type { VerifyControlToken } from '../auth/control-auth.ts'
import type { RevocationStore } from '../auth/revocations.ts'
import type { ExposedPorts } from '../preview/exposed-ports.ts'
import { recoveringError } from '../sandbox/end.ts'
import type { SandboxManager } from '../sandboxes/manager.ts'

export type ControlOptions = {
  manager: SandboxManager
  revocations: RevocationStore
  /** Ports that are previews. */
  exposed: Pick<ExposedPorts, 'replace'>
  /** Takes the broker's keys, all that count from now on. */
  onKeys: (jwks: Jwks) => Promise<void>
  /** What the broker has still to hear of a sandbox; undefined for nothing. */
  untold: (sandboxId: string) => SandboxUntold | undefined
  /** Which start of which install this is. */
  instance: AgentInstance
  verify: VerifyControlToken
  log: Logger
}

/** The control API for the broker (`packages/protocol/src/agents/control.ts`); every route needs a control token. */
export const createControlApp = ({ manager, revocations, exposed, onKeys, untold, instance, verify, log }: ControlOptions): Hono =>
  new Hono()
    .use(authenticated(verify))
    .use(limited)
    .put('/control/v1/sessions/:session/sandbox', async (c) => {
      const request = await parse(c, CreateSandboxRequest)
      return c.json(await manager.ensureForSession(c.req.param('session'), request))
    })
    .get('/control/v1/sandboxes', (c) => {
      // Who asks for all takes what is not among them to be gone.
      if (manager.recovery.isUnderWay) throw recoveringError()
      return c.json({ sandboxes: manager.inventory.reports() })
    })
    .get('/control/v1/sandboxes/:id', (c) => c.json(manager.inventory.report(c.req.param('id'))))
    .get('/control/v1/sandboxes/:id/processes', async (c) => c.json({ processes: await manager.inventory.processes(c.req.param('id')) }))
    .post('/control/v1/sandboxes/:id/suspend', async (c) => {
      const { mode, ...order } = await parse(c, SuspendRequest)
      return c.json(await manager.suspend(c.req.param('id'), mode, order))
    })
    .post('/control/v1/sandboxes/:id/resume', async (c) => {
      // Brokers of before send no body.
      const order = (await c.req.text()) === '' ? {} : await parse(c, ResumeRequest)
      return c.json(await manager.resume(c.req.param('id'), order))
    })
    .put('/control/v1/sandboxes/:id/ports', async (c) => {
      exposed.replace(c.req.param('id'), (await parse(c, ReplacePreviews)).ports)
      return c.body(null, 204)
    })
    .put('/control/v1/sandboxes/:id/egress', async (c) => {
      const { policy, revision } = await parse(c, SetSandboxEgress)
      return c.json({ revision: await manager.setEgress(c.req.param('id'), policy, revision) } satisfies SandboxEgressSet)
    })
    .get('/control/v1/sandboxes/:id/workspace-usage', async (c) => {
      const { max_entries: most } = query(c, UsageQuery)
      return c.json(await manager.workspaces.usage(c.req.param('id'), most))
    })
    .delete('/control/v1/sandboxes/:id', async (c) => {
      const id = c.req.param('id')
      const order = query(c, DestroyQuery)
      const session = manager.get(id)?.sessionId
      const revoked = session ? revocations.deniedSession(session) : undefined
      const reason = order.reason ?? revoked ?? 'released'
      const destroyed = manager.destroy(id, reason, { keepWorkspace: order.keep_workspace })
      // The revocation of the session may come later, on another connection: what is asked until then would be told that the sandbox is
      // lost. A session that has failed here may live on elsewhere.
      if (session && order.reason !== undefined && reason !== 'failed') revocations.endSession(session, reason)
      await destroyed
      const rest = untold(id)
      return rest === undefined ? c.body(null, 204) : c.json(rest)
    })
    .delete('/control/v1/workspaces/:id', async (c) => {
      await manager.workspaces.forget(c.req.param('id'))
      return c.body(null, 204)
    })
    .post('/control/v1/revocations', async (c) => {
      revocations.apply(await parse(c, Revocations))
      return c.body(null, 204)
    })
    .get('/control/v1/instance', (c) => c.json(instance))
    .put('/control/v1/keys', async (c) => {
      await onKeys(await parse(c, Jwks))
      return c.body(null, 204)
    })
    .notFound((c) => refusal(c, new BoxofficeError('NOT_FOUND', 'no such control route')))
    .onError((thrown, c) => {
      const error = fromUnknown(thrown)
      if (error.code === 'INTERNAL')
        log.error({ err: error.cause ?? error, method: c.req.method, path: c.req.path }, 'control request failed')
      return refusal(c, error)
    })

const authenticated = (verify: VerifyControlToken): MiddlewareHandler =>
  async function authenticate(c, next) {
    const token = /^bearer +(\S+)$/i.exec(c.req.header('authorization') ?? '')?.[1]
    if (token === undefined) throw new BoxofficeError('UNAUTHENTICATED', 'A control token is required')
    await verify(token)
    await next()
  }

/** A length that is told is kept to by the HTTP parser. Counting makes web streams of every body, which costs more than parsing it. */
const limitedTo = (bytes: number): MiddlewareHandler => {
  const counted = bodyLimit({ maxSize: bytes, onError: () => tooLarge(bytes) })
  return async (c, next) => {
    const length = c.req.header('content-length')
    if (length === undefined || c.req.header('transfer-encoding') !== undefined) return counted(c, next)
    if (Number(length) > bytes) tooLarge(bytes)
    await next()
  }
}

/** A body that carries a policy of egress may be as large as one; all others are small [C-80]. */
const [withPolicy, withoutPolicy] = [limitedTo(2 * LIMITS.policyBytes), limitedTo(LIMITS.controlBodyBytes)]
const limited: MiddlewareHandler = (c, next) => (/\/(?:sandbox|egress)$/.test(c.req.path) ? withPolicy : withoutPolicy)(c, next)

const parse = async <T extends z.ZodType>(c: Context, schema: T): Promise<z.output<T>> => {
  const body: unknown = await c.req.json().catch(() => {
    throw new BoxofficeError('INVALID_REQUEST', 'body: must be JSON')
  })
  const parsed = schema.safeParse(body)
  if (!parsed.success) throw new BoxofficeError('INVALID_REQUEST', describeIssues(parsed.error))
  return parsed.data
}

const UsageQuery = z.object({ max_entries: z.coerce.number().int().min(0).max(10_000_000).default(100_000) })

const query = <T extends z.ZodType>(c: Context, schema: T): z.output<T> => {
  const parsed = schema.safeParse(c.req.query())
  if (!parsed.success) throw new BoxofficeError('INVALID_REQUEST', describeIssues(parsed.error))
  return parsed.data
}

const tooLarge = (bytes: number): never => {
  throw new BoxofficeError('PAYLOAD_TOO_LARGE', `the body is larger than ${bytes} bytes`)
}

const refusal = (c: Context, error: BoxofficeError): Response =>
  c.json(error.envelope(requestIdFrom(c.req.header('x-request-id'))), error.status as ContentfulStatusCode)
