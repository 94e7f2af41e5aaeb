import { BoundedCache } from '@boxoffice/kit/bounded-cache'
import {
  type Binding,
  type HeartbeatResponse,
  NegotiateResponse,
  type Policy,
  type RefreshTokenResponse,
  type Scope,
  type NegotiateRequest as WireNegotiateRequest,
} from '@boxoffice/protocol'
import { z } from 'zod'
import type { DataplaneOf, DataplaneUrls } from '../../../agents/dataplane-mode.ts'
import { readRequested } from '../../../domain/capabilities.ts'
import { threadOf, threadScope } from '../../../domain/scope.ts'
import { DEFAULT_SCOPE_TEMPLATE } from '../../../domain/scope-catalog.ts'
import { renderScope } from '../../../domain/scope-template.ts'
import { isLive, isPlaced, type PlacedSession, placedOf, type Session } from '../../../domain/session.ts'
import type { Repeatable } from '../../../sessions/idempotency.ts'
import type { Grant } from '../../../sessions/negotiate.ts'
import type { NegotiateRequest } from '../../../sessions/negotiate-request.ts'
import type { SessionView } from '../../../sessions/service.ts'
import type { IssuedToken } from '../../../tokens/issuer.ts'

/** `GET …/{id}`: the acquire response, without what the session does not (or no longer) have. */
export const SessionResponse = NegotiateResponse.extend({ sandbox: NegotiateResponse.shape.sandbox.nullable() }).partial({
  token: true,
  expires_at: true,
  token_type: true,
  credentials: true,
  dataplane: true,
})
export type SessionResponse = z.infer<typeof SessionResponse>

export const ListQuery = z.object({
  state: z.enum(['provisioning', 'active', 'idle', 'suspended', 'terminated', 'failed']).optional(),
  scope_type: z.string().max(64).optional(),
  scope_id: z.string().max(256).optional(),
  label: z
    .string()
    .max(400)
    .regex(/^[^:]+:/, 'must be key:value')
    .optional(),
  limit: z.coerce.number().int().min(1).max(200).default(50),
  cursor: z.string().max(200).optional(),
})

/** Thread ids and thread scopes are one namespace [4-80]; whoever says `thread_id` is answered in the MVP's names [C-45]. */
export const toNegotiateRequest = (body: WireNegotiateRequest, wait: number, repeatable: Repeatable | null): NegotiateRequest => ({
  scope: scopeOf(body),
  mode: body.mode === 'attach_only' ? 'get' : body.mode,
  shape: body.scope === undefined || body.thread_id !== undefined ? 'mvp' : 'full',
  actor: body.actor,
  requested: readRequested(body.requested_capabilities),
  sandboxHint: body.sandbox_hint ?? null,
  provider: body.provider_preference === undefined || body.provider_preference === 'auto' ? null : body.provider_preference,
  profile: body.profile ?? null,
  overrides: body.workspace === undefined ? null : { workspaceHostPath: body.workspace.host_path },
  relay: body.relay ?? null,
  labels: { ...body.labels, ...(body.scope_template === undefined ? {} : { scope_template: body.scope_template }) },
  onMismatch: body.on_mismatch ?? 'warn',
  members: body.members ?? null,
  wait,
  repeatable,
})

/** A rendered template is the id of a thread [0-18]. */
function scopeOf({ scope, thread_id, scope_template = DEFAULT_SCOPE_TEMPLATE, variables = {} }: WireNegotiateRequest): Scope {
  return scope ?? threadScope(thread_id ?? renderScope(scope_template, variables))
}

/** Both shapes in one: MVP fields and full blocks (contract 2.3). */
export function toNegotiateResponse({ session, agent, token, relay, warnings }: Grant, dataplaneOf: DataplaneOf): NegotiateResponse {
  const dataplane = dataplaneOf({ session, agent, relay })
  return {
    session_id: session.id,
    thread_id: threadOf(session.scope),
    sandbox: toSandbox(session, dataplane),
    ...toTokenFields(token),
    warnings,
    binding: toBinding(session),
    dataplane,
    policy: toPolicy(session),
  }
}

export function toSessionResponse({ session, agent, token }: SessionView, dataplaneOf: DataplaneOf): SessionResponse {
  const placed = isPlaced(session) && agent !== undefined ? { session, dataplane: dataplaneOf({ session, agent, relay: null }) } : null
  return {
    session_id: session.id,
    thread_id: threadOf(session.scope),
    sandbox: placed && toSandbox(placed.session, placed.dataplane),
    ...(token === null ? {} : toTokenFields(token)),
    warnings: [],
    binding: toBinding(session),
    ...(placed === null ? {} : { dataplane: placed.dataplane }),
    policy: toPolicy(session),
  }
}

export const toRefreshResponse = ({ token, expiresAt }: IssuedToken) => ({ token, expires_at: fromSeconds(expiresAt) })

export const toRefreshTokenResponse = (issued: IssuedToken): RefreshTokenResponse => {
  const { token, expires_at, credentials } = toTokenFields(issued)
  return { token, expires_at, credentials }
}

export const toHeartbeatResponse = (session: PlacedSession): HeartbeatResponse => ({
  binding: toBinding(session),
  lease_expires_at: fromSeconds(Math.floor(session.leaseExpiresAt / 1000)),
})

export function toBinding(session: Session): Binding {
  const placed = placedOf(session)
  return {
    id: session.id,
    scope: session.scope,
    sandbox_id: placed?.sandboxId ?? null,
    provider: placed?.provider ?? null,
    state: session.state,
    lease_expires_at: isLive(session) ? fromSeconds(Math.floor(session.leaseExpiresAt / 1000)) : null,
    created_at: new Date(session.createdAt).toISOString(),
    profile: session.profile.name,
    isolation: placed?.isolation ?? null,
    network: { requested: session.profile.network, effective: placed?.network ?? null },
    labels: session.labels,
    generation: placed?.incarnation ?? 0,
    reason: isLive(session) ? null : session.reason,
  }
}

const toTokenFields = ({ token, expiresAt, capabilities }: IssuedToken) => ({
  token,
  token_type: 'Bearer' as const,
  expires_at: fromSeconds(expiresAt),
  credentials: {
    token_type: 'Bearer' as const,
    access_token: token,
    expires_at: fromSeconds(expiresAt),
    granted_capabilities: [...capabilities],
  },
})

const toPolicy = ({ profile }: Session): z.infer<typeof Policy> => ({
  idle_timeout_seconds: profile.idle_timeout_seconds,
  hard_ttl_seconds: profile.hard_ttl_seconds,
  lease_seconds: profile.lease_seconds,
  stop_after_seconds: profile.stop_after_seconds,
  on_lease_expiry: profile.on_lease_expiry,
})

const toSandbox = ({ sandboxId, provider }: PlacedSession, { http_base_url, ws_base_url }: DataplaneUrls) => ({
  id: sandboxId,
  provider,
  http_base_url,
  ws_base_url,
})

/** Whole seconds with `Z` [4-08]. Most answers of one second show the same two times. */
function fromSeconds(seconds: number): string {
  return shown.getOrMake(seconds, () => `${new Date(seconds * 1000).toISOString().slice(0, 19)}Z`)
}
const shown = new BoundedCache<number, string>(100)
