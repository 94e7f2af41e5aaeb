/** For whom a connection is held, once somebody has authenticated on it. */
export type Holder = { tenant: string; principal: string }

type Tenant<C> = { size: number; principals: Map<string, Set<C>> }

/** Connections by tenant and principal: it finds who holds most. */
export class Holders<C> {
  readonly #tenants = new Map<string, Tenant<C>>()

  add({ tenant, principal }: Holder, connection: C): void {
    const group = this.#tenants.get(tenant) ?? { size: 0, principals: new Map<string, Set<C>>() }
    const mine = group.principals.get(principal) ?? new Set()
    group.size += 1
    this.#tenants.set(tenant, group)
    group.principals.set(principal, mine.add(connection))
  }

  /** Of a connection that was added with the same holder. */
  remove({ tenant, principal }: Holder, connection: C): void {
    const group = this.#tenants.get(tenant)
    const mine = group?.principals.get(principal)
    if (group === undefined || mine?.delete(connection) !== true) return
    group.size -= 1
    if (mine.size === 0) group.principals.delete(principal)
    if (group.size === 0) this.#tenants.delete(tenant)
  }

  /** The connections, oldest first, of the principal that holds most in the tenant that holds most; none: nobody holds any. */
  largest(): ReadonlySet<C> {
    const tenant = largestOf(this.#tenants.values())
    return (tenant && largestOf(tenant.principals.values())) ?? new Set()
  }
}

const largestOf = <T extends { readonly size: number }>(groups: Iterable<T>): T | undefined => {
  let largest: T | undefined
  for (const group of groups) if (largest === undefined || group.size > largest.size) largest = group
  return largest
}
