import { hash } from 'node:crypto'
import type { Scope } from '@boxoffice/protocol'
import type { Sql } from './database.ts'

/**
 * Locks that last until the transaction ends. Whoever takes several takes them in this order, or two transactions wait for each other:
 * tenant, scope, journal of an agent's instance, row of a session (by id where there are several), then rows of that session.
 * A lock is a statement of its own: what is read in the same one may be older than the lock.
 */
export async function lockScope(tx: Sql, tenant: string, scope: Scope): Promise<void> {
  await tx.rows(LOCK, [keyOf('scope', tenant, scope.type, scope.id)])
}

/** The tenant's lock and then the scope's, in one round trip. */
export async function lockTenantAndScope(tx: Sql, tenant: string, scope: Scope): Promise<void> {
  await tx.rows(LOCK_BOTH, [keyOf('tenant', tenant), keyOf('scope', tenant, scope.type, scope.id)])
}

export async function lockJournal(tx: Sql, agentId: string, instanceId: string): Promise<void> {
  await tx.rows(LOCK, [keyOf('journal', agentId, instanceId)])
}

/** Locks what has this name for all brokers; the last in the order. */
export async function lockNamed(tx: Sql, name: string): Promise<void> {
  await tx.rows(LOCK, [keyOf('named', name)])
}

/** The rows of these sessions, as far as they are there. */
export async function lockSessions(tx: Sql, ids: readonly string[]): Promise<void> {
  if (ids.length > 0) await tx.rows('SELECT id FROM sessions WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE', [ids])
}

const LOCK = 'SELECT pg_advisory_xact_lock($1)'
// A subquery that the planner keeps apart, so that the order is the written one.
const LOCK_BOTH = 'WITH first AS MATERIALIZED (SELECT pg_advisory_xact_lock($1)) SELECT pg_advisory_xact_lock($2) FROM first'

/** 64 bits of a hash, as the decimal text of a signed number. Two names with one key only wait for each other. */
const keyOf = (...name: string[]): string =>
  Buffer.from(hash('sha256', JSON.stringify(name), 'hex').slice(0, 16), 'hex')
    .readBigInt64BE()
    .toString()
