import { type CreationTerms, judgeCreation } from '../../../domain/creation.ts'
import type { ProvisioningSession } from '../../../domain/session.ts'
import { LIVE, SESSION_COLUMNS, toRow } from '../../rows/session-row.ts'
import type { CreateOutcome, WrittenWithCreation } from '../../session-store.ts'
import type { Transaction, Write } from '../engine/database.ts'
import { lockTenantAndScope } from '../engine/locks.ts'
import { auditInsert, auditJson } from '../tables/audit.ts'
import { eventRows, eventValues } from './events.ts'
import { putGrant } from './grants.ts'
import { putIdempotency } from './idempotency.ts'
import type { Profiles } from './profiles.ts'

type Facts = { live_id: string | null; owner: string | null; live: number; labeled: number }

const OF_SCOPE = 'tenant = $1 AND scope_type = $2 AND scope_id = $3'
const FACTS = `SELECT
  (SELECT id FROM sessions WHERE ${OF_SCOPE} AND ${LIVE}) AS live_id,
  (SELECT owner FROM scopes WHERE ${OF_SCOPE}) AS owner,
  coalesce((SELECT live FROM live_by_tenant WHERE tenant = $1), 0) AS live,
  coalesce((SELECT live FROM live_by_label WHERE tenant = $1 AND key = $4 AND value = $5), 0) AS labeled`

const COLUMNS = SESSION_COLUMNS.length
// The session, its profile, its scope's owner [C-02], its first events and what the audit log has of it, in one statement: others of the
// tenant wait for as many round trips as the transaction has.
const INSERT = `
  WITH profile AS (INSERT INTO profiles (hash, json) VALUES ($${COLUMNS + 1}, $${COLUMNS + 2}) ON CONFLICT DO NOTHING),
  made AS (
    INSERT INTO sessions (${SESSION_COLUMNS.join(', ')}, event_seq)
    VALUES (${SESSION_COLUMNS.map((_, i) => `$${i + 1}`).join(', ')}, $${COLUMNS + 3})
    ON CONFLICT (tenant, scope_type, scope_id) WHERE ${LIVE} DO NOTHING
    RETURNING id, tenant, scope_type, scope_id, created_at),
  claimed AS (
    INSERT INTO scopes (tenant, scope_type, scope_id, owner, claimed_at)
    SELECT made.tenant, made.scope_type, made.scope_id, $${COLUMNS + 8}::text, made.created_at FROM made WHERE $${COLUMNS + 8}::text IS NOT NULL
    ON CONFLICT DO NOTHING),
  told AS (
    INSERT INTO session_events (session_id, id, ts, type, data)
    SELECT made.id, event.n, event.ts, event.type, event.data FROM made, ${eventRows(COLUMNS + 4)}),
  audited AS (${auditInsert(COLUMNS + 7, 'made')})
  SELECT id FROM made`

/**
 * Makes the session if `judgeCreation` admits it by what holds in the transaction; else nothing is written. Creations of a tenant take
 * turns, so that no two of them count the same live sessions.
 */
export function createSession(
  write: Write,
  profiles: Profiles,
  session: ProvisioningSession,
  terms: CreationTerms,
  written: WrittenWithCreation,
): Promise<CreateOutcome> {
  return write((tx) => create(tx, profiles, session, terms, written))
}

async function create(
  tx: Transaction,
  profiles: Profiles,
  session: ProvisioningSession,
  terms: CreationTerms,
  { idempotency, audit, events, grant }: WrittenWithCreation,
): Promise<CreateOutcome> {
  const { tenant, scope } = session
  await lockTenantAndScope(tx, tenant, scope)
  const label = terms.labelQuota
  const [facts] = await tx.rows<Facts>(FACTS, [tenant, scope.type, scope.id, label?.key ?? null, label?.value ?? null])
  if (facts === undefined || facts.live_id !== null) return { outcome: 'exists' }
  const verdict = judgeCreation(facts, terms)
  if (verdict.outcome !== 'admitted') return verdict
  const { owner } = verdict
  const profile = profiles.rowOf(session.profile)
  const row = { ...toRow(session), owner: owner ?? session.createdBy, profile_hash: profile.hash }
  const values = SESSION_COLUMNS.map((name) => row[name as keyof typeof row])
  values.push(profile.hash, profile.json, events.length)
  const made = await tx.rows(INSERT, [...values, ...eventValues(events), auditJson(audit), owner])
  if (made.length === 0) return { outcome: 'exists' }
  if (events.length > 0) tx.appended(session.id)
  if (idempotency !== null) await putIdempotency(tx, idempotency)
  if (grant) await putGrant(tx, grant)
  return { outcome: 'created' }
}
