import { type AuditEntry, auditEntry, systemOrigin } from '../../../src/domain/audit-entry.ts'
import type { CreationTerms } from '../../../src/domain/creation.ts'
import { type SessionEvent, transition } from '../../../src/domain/lifecycle.ts'
import type { ActiveSession, EndedSession, ProvisioningSession, Session } from '../../../src/domain/session.ts'
import type { NewSessionEvent } from '../../../src/domain/session-event.ts'
import type { CreateOutcome, SaveOptions, SessionFilter, WrittenWithCreation } from '../../../src/store/session-store.ts'
import type { Store } from '../../../src/store/store.ts'
import { newSession } from '../../support/crowd.ts'
import type { Stores } from './exam.ts'

/** An id that no other test uses. */
export const fresh = (kind: string): string => `${kind}_${crypto.randomUUID()}`

/** Nobody's scope, claimed by `me`, and no quota in sight. */
export const ANY: CreationTerms = { owner: null, claimFor: 'me', maxLive: 100_000, labelQuota: null }

export const create = (
  store: Store,
  session: ProvisioningSession,
  terms: Partial<CreationTerms> = {},
  written: Partial<WrittenWithCreation> = {},
): Promise<CreateOutcome> => store.sessions.create(session, { ...ANY, ...terms }, { idempotency: null, audit: [], events: [], ...written })

/** A session that is being made, in a tenant of its own unless `fields` name one. */
export async function provisioning(store: Store, fields: Partial<ProvisioningSession> = {}): Promise<ProvisioningSession> {
  const session = newSession({ tenant: fresh('tenant'), ...fields })
  const { outcome } = await create(store, session, { claimFor: session.createdBy })
  if (outcome !== 'created') throw new Error(`not created: ${outcome}`)
  return session
}

/** The next one of `before`'s scope. */
export const successor = ({ tenant, scope, agentId }: Session, fields: Partial<ProvisioningSession> = {}): ProvisioningSession =>
  newSession({ tenant, scope, agentId, ...fields })

/** `session` as `event` leaves it. Throws for one that its state refuses. */
export function after(session: Session, event: SessionEvent, now = Date.now()): Session {
  const step = transition(session, event, now)
  if (step.refused !== undefined) throw new Error(step.refused)
  return step.session
}

export const madeBy = (session: ProvisioningSession): SessionEvent => ({
  type: 'created',
  fence: session.fence,
  placed: {
    agentId: session.agentId,
    sandboxId: `sbx_${session.id}`,
    provider: 'local',
    isolation: 'bubblewrap',
    network: 'proxy',
    incarnation: 1,
  },
})

export const RELEASED: SessionEvent = { type: 'released', keepWorkspace: false }

/** Saves what `event` makes of the session as it is stored, and reads it again. Throws when somebody else was faster. */
export async function change(store: Store, id: string, event: SessionEvent, options: SaveOptions = {}, now?: number): Promise<Session> {
  const before = await read(store, id)
  if (!(await store.sessions.save(before, after(before, event, now), options))) throw new Error('the session has changed')
  return read(store, id)
}

export async function active(store: Store, fields: Partial<ProvisioningSession> = {}): Promise<ActiveSession> {
  const session = await provisioning(store, fields)
  return (await change(store, session.id, madeBy(session))) as ActiveSession
}

export async function ended(store: Store, fields: Partial<ProvisioningSession> = {}): Promise<EndedSession> {
  return (await change(store, (await active(store, fields)).id, RELEASED)) as EndedSession
}

export async function read(store: Store, id: string): Promise<Session> {
  const session = await store.sessions.byId(id)
  if (session === undefined) throw new Error(`there is no session ${id}`)
  return session
}

/** One of the tests' own events; `n` tells it from others. */
export const told = (n: number, ts = Date.now()): NewSessionEvent => ({
  ts,
  type: 'lease',
  data: { lease_expires_at: new Date(n).toISOString() },
})

/** The numbers of `told`, by the ids of their events. */
export async function events(store: Store, sessionId: string): Promise<{ ids: number[]; told: number[]; types: string[] }> {
  const rows = await store.events.after(sessionId, 0, 10_000)
  return {
    ids: rows.map(({ id }) => id),
    told: rows.flatMap(({ type, data }) => (type === 'lease' ? Date.parse(JSON.parse(data).lease_expires_at) : [])),
    types: rows.map(({ type }) => type),
  }
}

/** What ends a stream. */
export const LAST: NewSessionEvent = { ts: 0, type: 'released', data: {} }

export const audited = (sessionId: string, fields: Partial<AuditEntry> = {}): AuditEntry => ({
  ...auditEntry('sandbox.session.read', systemOrigin(null), { ts: Date.now(), sessionId }),
  ...fields,
})

/** Cannot be written, so that the change that it belongs to is not made either. */
export const UNWRITABLE = { ...audited('nobody'), data: { n: 1n } }

export const auditOf = (store: Store, sessionId: string) => store.audit.query({ ...ALL_AUDIT, sessionId })
export const ALL_AUDIT = {
  tenant: null,
  event: null,
  sessionId: null,
  threadId: null,
  caller: null,
  since: null,
  until: null,
  limit: 10_000,
  before: null,
} as const

export const listing = (tenant: string, fields: Partial<SessionFilter> = {}): SessionFilter => ({
  ...{ tenant, principal: null, state: null, scopeType: null, scopeId: null, label: null, limit: 1000, after: null },
  ...fields,
})

/** 0 … n−1. */
export const times = (n: number): number[] => Array.from({ length: n }, (_, at) => at)

/** Calls `n` times at once, by turns on both stores. */
export const together = <T>({ one, other }: Stores, n: number, call: (store: Store, at: number) => Promise<T>): Promise<T[]> =>
  Promise.all(times(n).map((at) => call(at % 2 === 0 ? one : other, at)))

/**
 * Runs two changes against each other, each on a store of its own, in many rounds at once, so that each comes first in some. `round`
 * gets the stores by turns and its number, and gives the changes.
 */
export const against = (stores: Stores, round: (mine: Store, theirs: Store, n: number) => Promise<void>, rounds = 12): Promise<unknown> =>
  together(stores, rounds, (mine, n) => round(mine, mine === stores.one ? stores.other : stores.one, n))

/** Lets as many round trips to the database pass, so that changes meet each other at different moments. */
export async function roundTrips(store: Store, n: number): Promise<void> {
  for (const _ of times(n)) await store.events.last('')
}

/** How many of `outcomes` are `wanted`. */
export const howMany = <T>(outcomes: readonly T[], wanted: T): number => outcomes.filter((outcome) => outcome === wanted).length
