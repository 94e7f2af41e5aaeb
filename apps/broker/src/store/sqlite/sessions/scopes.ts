import type { Scope } from '@boxoffice/protocol'
import type { Ownership, ScopeStore } from '../../session-store.ts'
import type { Db } from '../engine/database.ts'
import type { Write } from '../engine/writer.ts'
import type { AppendAudit } from '../tables/audit.ts'

export type Scopes = ScopeStore & {
  /** Inside a transaction: claims the scope unless somebody has, and says whose it then is [C-02]. */
  claim(tenant: string, scope: Scope, principal: string, now: number): Ownership
  owner(tenant: string, scope: Scope): string | null
  /** Inside a transaction: nobody's any more, without members. */
  forget(tenant: string, scope: Scope): void
}

export function sqliteScopes(db: Db, write: Write, appendAudit: AppendAudit): Scopes {
  // Owner and members in one look-up: `ensure` asks each time.
  const find = db.prepare<[string, string, string], { owner: string; members: string | null }>(
    `SELECT owner, (SELECT json_group_array(m.principal) FROM scope_members m WHERE m.tenant = o.tenant
       AND m.scope_type = o.scope_type AND m.scope_id = o.scope_id HAVING count(*) > 0) AS members
     FROM scopes o WHERE tenant = ? AND scope_type = ? AND scope_id = ?`,
  )
  const claim = db.prepare('INSERT OR IGNORE INTO scopes (tenant, scope_type, scope_id, owner, claimed_at) VALUES (?, ?, ?, ?, ?)')
  const forgetOwner = db.prepare('DELETE FROM scopes WHERE tenant = ? AND scope_type = ? AND scope_id = ?')
  const forgetMembers = db.prepare('DELETE FROM scope_members WHERE tenant = ? AND scope_type = ? AND scope_id = ?')
  const addMember = db.prepare('INSERT OR IGNORE INTO scope_members (tenant, scope_type, scope_id, principal) VALUES (?, ?, ?, ?)')

  const ownership = (tenant: string, scope: Scope): Ownership => {
    const found = find.get(tenant, scope.type, scope.id)
    return { owner: found?.owner ?? null, members: found?.members ? (JSON.parse(found.members) as string[]) : [] }
  }
  return {
    ownership: async (tenant, scope) => ownership(tenant, scope),
    owner: (tenant, scope) => ownership(tenant, scope).owner,
    claim: (tenant, scope, principal, now) => {
      claim.run(tenant, scope.type, scope.id, principal, now)
      return ownership(tenant, scope)
    },
    forget: (tenant, { type, id }) => {
      forgetOwner.run(tenant, type, id)
      forgetMembers.run(tenant, type, id)
    },
    setMembers: ({ tenant, scope, known, owner: heir, members, now }, audit) =>
      write.vital(() => {
        const before = ownership(tenant, scope)
        if (before.owner !== known) return undefined
        const owner = before.owner ?? heir
        if (before.owner === null) claim.run(tenant, scope.type, scope.id, owner, now)
        forgetMembers.run(tenant, scope.type, scope.id)
        for (const member of members) if (member !== owner) addMember.run(tenant, scope.type, scope.id, member)
        appendAudit(audit)
        return { owner, removed: before.members.filter((member) => !members.includes(member)) }
      }),
  }
}
