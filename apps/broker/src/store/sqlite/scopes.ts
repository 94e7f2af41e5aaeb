import type { Scope } from '@boxoffice/protocol'
import type { Ownership, ScopeStore } from '../store.ts'
import type { Db } from './database.ts'

export type Scopes = ScopeStore & {
  /** Inside a transaction: claims the scope unless somebody has, and says whose it then is [C-02]. */
  claim(tenant: string, scope: Scope, principal: string, now: number): Ownership
}

export function sqliteScopes(db: Db): Scopes {
  const owner = db.prepare<[string, string, string]>('SELECT owner FROM scopes WHERE tenant = ? AND scope_type = ? AND scope_id = ?').pluck()
  const members = db
    .prepare<[string, string, string]>('SELECT principal FROM scope_members WHERE tenant = ? AND scope_type = ? AND scope_id = ?')
    .pluck()
  const claim = db.prepare('INSERT OR IGNORE INTO scopes (tenant, scope_type, scope_id, owner, claimed_at) VALUES (?, ?, ?, ?, ?)')

  const ownership = (tenant: string, scope: Scope): Ownership => {
    const found = owner.get(tenant, scope.type, scope.id) as string | undefined
    return { owner: found ?? null, members: found === undefined ? [] : (members.all(tenant, scope.type, scope.id) as string[]) }
  }
  return {
    ownership: async (tenant, scope) => ownership(tenant, scope),
    claim: (tenant, scope, principal, now) => {
      claim.run(tenant, scope.type, scope.id, principal, now)
      return ownership(tenant, scope)
    },
  }
}
