import type { Scope } from '@boxoffice/protocol'
import type { Ownership, ScopeStore } from '../../session-store.ts'
import type { Database, Sql, Transaction } from '../engine/database.ts'
import { lockScope } from '../engine/locks.ts'
import { appendAudit } from '../tables/audit.ts'

/** Owner and members of the scope `o`, in one look-up: `ensure` asks each time. */
export const OWNERSHIP = `o.owner AS scope_owner, (SELECT array_agg(m.principal ORDER BY m.principal) FROM scope_members m
  WHERE m.tenant = o.tenant AND m.scope_type = o.scope_type AND m.scope_id = o.scope_id) AS scope_members`
export type OwnershipRow = { scope_owner: string | null; scope_members: string[] | null }

export const toOwnership = (row: OwnershipRow | undefined): Ownership => ({
  owner: row?.scope_owner ?? null,
  members: row?.scope_members ?? [],
})

const FIND = `SELECT ${OWNERSHIP} FROM scopes o WHERE o.tenant = $1 AND o.scope_type = $2 AND o.scope_id = $3`
const CLAIM = `INSERT INTO scopes (tenant, scope_type, scope_id, owner, claimed_at) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`
const ADD_MEMBERS = `INSERT INTO scope_members (tenant, scope_type, scope_id, principal) SELECT $1, $2, $3, unnest($4::text[])
  ON CONFLICT DO NOTHING`
const OF_SCOPE = 'tenant = $1 AND scope_type = $2 AND scope_id = $3'

export async function ownershipOf(sql: Sql, tenant: string, { type, id }: Scope): Promise<Ownership> {
  return toOwnership((await sql.rows<OwnershipRow>(FIND, [tenant, type, id]))[0])
}

/** Under the scope's lock: claims it unless somebody has [C-02]. */
export async function claimScope(tx: Transaction, tenant: string, { type, id }: Scope, principal: string, now: number): Promise<void> {
  await tx.run(CLAIM, [tenant, type, id, principal, now])
}

/** Under the scope's lock: nobody's any more, without members. */
export async function disownScope(tx: Transaction, tenant: string, { type, id }: Scope): Promise<void> {
  await tx.run(`DELETE FROM scopes WHERE ${OF_SCOPE}`, [tenant, type, id])
  await forgetMembers(tx, tenant, { type, id })
}

async function forgetMembers(tx: Transaction, tenant: string, { type, id }: Scope): Promise<void> {
  await tx.run(`DELETE FROM scope_members WHERE ${OF_SCOPE}`, [tenant, type, id])
}

export function postgresScopes({ read, write }: Database): ScopeStore {
  return {
    ownership: (tenant, scope) => ownershipOf(read, tenant, scope),
    setMembers: ({ tenant, scope, known, owner: heir, members, now }, audit) =>
      write(async (tx) => {
        await lockScope(tx, tenant, scope)
        const before = await ownershipOf(tx, tenant, scope)
        if (before.owner !== known) return undefined
        const owner = before.owner ?? heir
        if (before.owner === null) await claimScope(tx, tenant, scope, owner, now)
        await forgetMembers(tx, tenant, scope)
        const others = members.filter((member) => member !== owner)
        if (others.length > 0) await tx.run(ADD_MEMBERS, [tenant, scope.type, scope.id, others])
        await appendAudit(tx, audit)
        return { owner, removed: before.members.filter((member) => !members.includes(member)) }
      }),
  }
}
