import { KeyedQueue } from '@boxoffice/kit/keyed-queue'
import { withTimeout } from '@boxoffice/kit/with-timeout'
import { DatabaseAway } from '../../database-away.ts'

/** Creations of a tenant at once: one that has the tenant's lock, and the next ones, whose wait for it has begun. */
const LANES = 3
/** As long as a statement may wait for a connection. */
const WITHIN_MS = 10_000

/**
 * Holds creations of a tenant back until one of a few lanes is free. They take turns at the tenant's lock anyway, and each that waits there
 * holds one of the broker's connections, which other tenants and the reports of agents need.
 */
export class CreationLanes {
  readonly #queues = new KeyedQueue()
  #count = 0

  /** Gives what the work gives, or throws it; `DatabaseAway` when no lane was free in time, and then the work is not done. */
  async run<T>(tenant: string, work: () => Promise<T>): Promise<T> {
    const begun = Promise.withResolvers<void>()
    let isLate = false
    const result = this.#queues.run(`${this.#count++ % LANES} ${tenant}`, async () => {
      if (isLate) return undefined
      begun.resolve()
      return { value: await work() }
    })
    await withTimeout(begun.promise, WITHIN_MS, () => {
      isLate = true
    })
    const done = isLate ? undefined : await result
    if (done === undefined)
      throw new DatabaseAway('too many sessions of this tenant are being made; try again', new Error('no lane was free'))
    return done.value
  }
}
