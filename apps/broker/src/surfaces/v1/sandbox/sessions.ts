import {
  BoxofficeError,
  HeartbeatResponse,
  ListSessionsResponse,
  NegotiateRequest,
  NegotiateResponse,
  RefreshRequest,
  RefreshResponse,
  RefreshTokenResponse,
} from '@boxoffice/protocol'
import { z } from 'zod'
import type { DataplaneOf } from '../../../agents/dataplane-mode.ts'
import { readRequested } from '../../../domain/capabilities.ts'
import { decodeCursor, pageOf } from '../../../http/cursor.ts'
import { waitSeconds } from '../../../http/prefer.ts'
import { type AnyRoute, defineRoute } from '../../../http/route.ts'
import { hashBody } from '../../../sessions/idempotency.ts'
import type { SessionService } from '../../../sessions/service.ts'
import * as wire from './session-wire.ts'

const MAX_IDEMPOTENCY_KEY = 255

const negotiateHeaders = {
  'Idempotency-Key': 'Repeating a request with its key gives the same session (modes ensure and create_only; kept 24 h)',
  Prefer: 'wait=N: seconds to wait for a sandbox that starts (default 10, at most 60), then 423',
}

/** Negotiate, read, refresh, heartbeat, release, list (contract 2.2 to 2.4). `full: false` is the MVP alone [4-175]. */
export const sessionRoutes = (sessions: SessionService, { full }: { full: boolean }, dataplaneOf: DataplaneOf): AnyRoute[] => [
  ...mvpRoutes(sessions, full ? NegotiateRequest : NegotiateRequest.superRefine(refuseFull), dataplaneOf),
  ...(full ? fullRoutes(sessions) : []),
]

const mvpRoutes = (sessions: SessionService, body: z.ZodType<NegotiateRequest>, dataplaneOf: DataplaneOf): AnyRoute[] => [
  defineRoute({
    method: 'POST',
    path: '/v1/sandbox/sessions',
    summary: 'Attach to the sandbox session of a thread or another scope, ensure that there is one, or create one',
    auth: 'key',
    headers: negotiateHeaders,
    body,
    naming: (body) => (isRecord(body) && 'scope' in body && !('thread_id' in body) ? 'full' : 'mvp'),
    responses: { 200: { description: 'The session with a fresh token', schema: NegotiateResponse } },
    async handle({ principal, body, rawBody, header, origin }) {
      if (body.workspace !== undefined && principal.role !== 'operator') throw mountsAreOperators()
      const creates = body.mode === 'ensure' || body.mode === 'create_only'
      const key = creates ? idempotencyKey(header('idempotency-key')) : null
      const repeatable = key === null ? null : { key, bodyHash: hashBody(rawBody) }
      const grant = await sessions.negotiate(principal, wire.toNegotiateRequest(body, waitSeconds(header('prefer')), repeatable), origin)
      const json = wire.toNegotiateResponse(grant, dataplaneOf)
      return grant.replayed ? { status: 200, json, headers: { 'idempotent-replayed': 'true' } } : { status: 200, json }
    },
  }),
  defineRoute({
    method: 'GET',
    path: '/v1/sandbox/sessions',
    summary: 'List the sessions that the caller may use; live ones unless a state is given',
    auth: 'key',
    query: wire.ListQuery,
    responses: { 200: { description: 'One page, newest first', schema: ListSessionsResponse } },
    async handle({ principal, query }) {
      const found = await sessions.list(principal, toListFilter(query))
      const { page, next_cursor } = pageOf(found, query.limit, ({ createdAt, id }) => [createdAt, id])
      return { status: 200, json: { sessions: page.map(wire.toBinding), next_cursor } }
    },
  }),
  defineRoute({
    method: 'GET',
    path: '/v1/sandbox/sessions/:id',
    summary: 'Read one session, with a fresh token unless token=false',
    auth: 'key',
    query: z.object({ token: z.enum(['true', 'false']).default('true') }),
    responses: { 200: { description: 'The session as it is', schema: wire.SessionResponse } },
    async handle({ principal, id, query, origin }) {
      const view = await sessions.read(principal, id, { withToken: query.token === 'true' }, origin)
      return { status: 200, json: wire.toSessionResponse(view, dataplaneOf) }
    },
  }),
  defineRoute({
    method: 'POST',
    path: '/v1/sandbox/sessions/:id/refresh',
    summary: 'Get a new token for a session',
    auth: 'key',
    naming: 'mvp',
    body: RefreshRequest,
    responses: { 200: { description: 'A new token; the old one stays good until its own end', schema: RefreshResponse } },
    async handle({ principal, id, body, origin }) {
      return {
        status: 200,
        json: wire.toRefreshResponse(await sessions.refresh(principal, id, toRefresh(body, true), origin)),
      }
    },
  }),
  defineRoute({
    method: 'DELETE',
    path: '/v1/sandbox/sessions/:id',
    summary: 'Release a session and its sandbox',
    auth: 'key',
    naming: 'mvp',
    query: z.object({ keep_workspace: z.enum(['true', 'false']).default('false') }),
    responses: { 204: { description: 'Released; its tokens are refused from now on' } },
    async handle({ principal, id, query, origin }) {
      await sessions.release(principal, id, { keepWorkspace: query.keep_workspace === 'true' }, origin)
      return { status: 204 }
    },
  }),
]

const fullRoutes = (sessions: SessionService): AnyRoute[] => [
  defineRoute({
    method: 'POST',
    path: '/v1/sandbox/sessions/:id/refresh-token',
    summary: 'Get new credentials for a session; leaves its lease alone',
    auth: 'key',
    body: RefreshRequest,
    responses: { 200: { description: 'A new token, and what it grants', schema: RefreshTokenResponse } },
    async handle({ principal, id, body, origin }) {
      return {
        status: 200,
        json: wire.toRefreshTokenResponse(await sessions.refresh(principal, id, toRefresh(body, false), origin)),
      }
    },
  }),
  defineRoute({
    method: 'POST',
    path: '/v1/sandbox/sessions/:id/heartbeat',
    summary: 'Say that a session is still needed: moves its lease, gives no token',
    auth: 'key',
    body: z.object({}),
    responses: { 200: { description: 'The session and its lease', schema: HeartbeatResponse } },
    async handle({ principal, id }) {
      return { status: 200, json: wire.toHeartbeatResponse(await sessions.heartbeat(principal, id)) }
    },
  }),
]

/** What the MVP does not have [4-175]. Fields that it does not know are optional everywhere and change nothing for it. */
function refuseFull({ scope, mode }: NegotiateRequest, context: z.core.$RefinementCtx): void {
  const refuse = (field: string, message: string) => context.addIssue({ code: 'custom', path: [field], message })
  if (scope !== undefined) refuse('scope', 'is part of the full protocol, which is off on this broker (features.full); send thread_id')
  if (mode !== 'get' && mode !== 'ensure') refuse('mode', 'must be one of get, ensure; the full protocol is off on this broker')
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null

/** A directory of a host is its operator's to give away [2-113]. */
const mountsAreOperators = (): BoxofficeError =>
  new BoxofficeError('FORBIDDEN', 'workspace.host_path: takes an operator key; leave workspace out to get one that is made for the scope', {
    details: { field: 'workspace.host_path' },
  })

const toRefresh = ({ actor, requested_capabilities: names }: RefreshRequest, movesLease: boolean) => ({
  actor,
  movesLease,
  requested: readRequested(names).capabilities,
})

function idempotencyKey(key: string | undefined): string | null {
  if (key === undefined) return null
  if (key.length >= 1 && key.length <= MAX_IDEMPOTENCY_KEY) return key
  throw new BoxofficeError('INVALID_REQUEST', `Idempotency-Key: must be 1 to ${MAX_IDEMPOTENCY_KEY} characters`)
}

function toListFilter(query: z.infer<typeof wire.ListQuery>) {
  const colon = query.label?.indexOf(':') ?? -1
  // Ended sessions are a day's history of everybody; looking through it for a label would hold up all others.
  if (colon !== -1 && (query.state === 'terminated' || query.state === 'failed'))
    throw new BoxofficeError('INVALID_REQUEST', 'label: finds live sessions only; leave out state, or name a live one')
  const [createdAt, id] = query.cursor === undefined ? [] : decodeCursor(query.cursor, ['number', 'string'])
  return {
    state: query.state ?? null,
    scopeType: query.scope_type ?? null,
    scopeId: query.scope_id ?? null,
    label: query.label === undefined ? null : { key: query.label.slice(0, colon), value: query.label.slice(colon + 1) },
    limit: query.limit + 1,
    after: createdAt === undefined ? null : { createdAt: Number(createdAt), id: String(id) },
  }
}
