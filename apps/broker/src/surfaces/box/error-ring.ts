import { BoundedCache } from '@boxoffice/kit/bounded-cache'
/** A failure as `/api/v1/box/errors` tells it [2-47]. */
export type BoxErrorEntry = { timestamp: string; type: string; message: string; query_id: string | null }

const KEPT = 50
/** Of the tenant that has been quiet the longest, nothing is kept any more. */
const MAX_TENANTS = 1000

/** The last failures of each tenant [2-48]. */
export class ErrorRing {
  readonly #byTenant = new BoundedCache<string, BoxErrorEntry[]>(MAX_TENANTS)

  add(tenant: string, entry: BoxErrorEntry): void {
    const entries = this.#byTenant.getOrMake(tenant, () => [])
    entries.push(entry)
    if (entries.length > KEPT) entries.shift()
  }

  /** Oldest first. */
  of(tenant: string): readonly BoxErrorEntry[] {
    return this.#byTenant.peek(tenant) ?? []
  }
}
