import { createHash } from 'node:crypto'
import { BoxofficeError } from '@boxoffice/protocol'
import type { Principal } from '../access/principals.ts'
import { IDEMPOTENCY_MS, keyReused } from '../domain/idempotency.ts'
import type { IdempotencyRecord } from '../store/session-store.ts'
import type { Store } from '../store/store.ts'

/** A request that may be repeated: its key and the hash of its body, where it has a key [C-12]. */
export type Repeatable = { key: string; bodyHash: string }

const ROUTE = 'POST /v1/sandbox/sessions'

/**
 * What was recorded under this key: undefined when it is new. 409 when the key came with another body [C-13].
 */
export async function findRepeat(
  store: Store,
  principal: Principal,
  request: Repeatable,
  now: number,
): Promise<IdempotencyRecord | undefined> {
  const record = await store.idempotency.find(principal.tenant, principal.id, ROUTE, request.key, now)
  if (record !== undefined && record.bodyHash !== request.bodyHash) throw keyReused(request.key)
  return record
}

export const recordOf = (principal: Principal, request: Repeatable, sessionId: string, now: number): IdempotencyRecord => ({
  tenant: principal.tenant,
  principal: principal.id,
  route: ROUTE,
  key: request.key,
  bodyHash: request.bodyHash,
  sessionId,
  expiresAt: now + IDEMPOTENCY_MS,
})

export const keyOfEndedSession = (key: string): BoxofficeError =>
  new BoxofficeError('BINDING_CONFLICT', `Idempotency-Key "${key}": the key belongs to an ended session; use a new key`)

/** SHA-256 over the JSON with sorted keys, so that white space and order do not make a request another one [C-13]. */
export const hashBody = (body: unknown): string => createHash('sha256').update(canonical(body)).digest('base64url')

/** Far more than any request has; what is deeper would only exhaust the stack. */
const MAX_DEPTH = 100

function canonical(value: unknown, depth = 0): string {
  if (depth > MAX_DEPTH)
    throw new BoxofficeError('INVALID_REQUEST', `body: is nested more than ${MAX_DEPTH} levels deep; send less, or no Idempotency-Key`)
  if (Array.isArray(value)) return `[${value.map((item) => canonical(item, depth + 1)).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${canonical(item, depth + 1)}`).join(',')}}`
}
