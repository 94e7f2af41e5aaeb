import { BoxofficeError } from '@boxoffice/protocol'
import { diskFull, isDiskFull, writeRefusal } from '../../../host/disk-error.ts'
import type { HeldChange } from '../../store.ts'
import { type Db, isBusy } from './database.ts'
import type { HeldLog } from './held-log.ts'
import type { Reserve } from './reserve.ts'

export type Write = {
  /** Runs `work` in a transaction and resolves when it is committed; rejects, with nothing changed, when it throws or the disk is full. */
  <T>(work: () => T): Promise<T>
  /**
   * The same for what must also work on a full disk: ends, withdrawals, and what changes a row in its place. Where not even the
   * reserve has a page left, `held` says what holds in memory until the write has been repeated.
   */
  vital<T>(work: () => T, held?: Held<T>): Promise<T>
}

/**
 * `hold` makes the change in memory and gives its result. `repeat` is the write as it is to be tried again, inside a transaction; by
 * default the first one. `release` is called once the change is in the database. `change` is what a restart meanwhile must not forget.
 */
export type Held<T> = { hold(): T; repeat?(): void; release(): void; change?: HeldChange }

/** Bounds how long other brokers on the database wait for one group. */
const MAX_GROUP = 64
/** How often what is held in memory is tried again. */
const HELD_RETRY_MS = 1000

type Pending = {
  work: () => unknown
  resolve: (value: unknown) => void
  reject: (reason: unknown) => void
  vital: boolean
  held: Held<unknown> | undefined
}

export type Writer = Disposable & { write: Write }

/**
 * Group commit. Writes of requests that arrive in the same turn of the event loop share one BEGIN IMMEDIATE transaction, as
 * the commit is what costs: 50 µs alone, 20 µs a write in groups of eight. `work` is synchronous, so nothing is awaited while
 * the lock is held [C-24], and may run twice: when one of a group throws, each runs again in a transaction of its own.
 * `committed` is called after each transaction; it must not throw.
 */
export function groupCommit(db: Db, { reserve, held: heldLog }: { reserve: Reserve; held: HeldLog }, committed: () => void): Writer {
  const begin = db.prepare('BEGIN IMMEDIATE')
  const commit = db.prepare('COMMIT')
  const rollback = db.prepare('ROLLBACK')
  let pending: Pending[] = []
  const heldWrites: { repeat: () => unknown; release: () => void }[] = []
  let retry: NodeJS.Timeout | undefined

  const transaction = <T>(work: () => T): T => {
    try {
      begin.run()
    } catch (thrown) {
      throw isBusy(thrown)
        ? new BoxofficeError('BACKEND_UNAVAILABLE', 'the database is busy; try again', { retryAfter: 1, cause: thrown })
        : thrown
    }
    try {
      const result = work()
      commit.run()
      committed()
      return result
    } catch (thrown) {
      if (db.inTransaction) rollback.run()
      if (isDiskFull(thrown)) reserve.wasFull()
      throw thrown
    } finally {
      reserve.committed()
    }
  }

  /** From the reserve: the WAL may be all that has no room left. */
  const fromReserve = <T>(work: () => T): T => {
    try {
      return transaction(work)
    } catch (thrown) {
      if (!isDiskFull(thrown)) throw thrown
    }
    reserve.reuseWal()
    return transaction(work)
  }

  const writeHeld = (): void => {
    retry = undefined
    try {
      for (let next = heldWrites[0]; next !== undefined; next = heldWrites[0]) {
        fromReserve(next.repeat)
        heldWrites.shift()
        next.release()
      }
    } catch {
      retryLater()
    }
  }

  const retryLater = (): void => {
    retry ??= setTimeout(writeHeld, HELD_RETRY_MS).unref()
  }

  const alone = ({ work, resolve, reject, vital, held }: Pending): void => {
    try {
      if (!vital && reserve.isFull()) throw diskFull()
      resolve(vital ? fromReserve(work) : transaction(work))
    } catch (thrown) {
      const refusal = writeRefusal(thrown)
      if (refusal === thrown || held === undefined) return reject(refusal)
      resolve(held.hold())
      const { change } = held
      if (change !== undefined) heldLog.put(change)
      const release = () => {
        if (change !== undefined) heldLog.remove(change)
        held.release()
      }
      heldWrites.push({ repeat: held.repeat ?? work, release })
      retryLater()
    }
  }

  const flush = (): void => {
    const group = pending.slice(0, MAX_GROUP)
    pending = pending.slice(MAX_GROUP)
    if (pending.length > 0) setImmediate(flush)
    const [only] = group
    if (group.length === 1 && only !== undefined) return alone(only)
    let results: unknown[]
    try {
      results = transaction(() => group.map(({ work }) => work()))
    } catch {
      for (const one of group) alone(one)
      return
    }
    for (const [i, { resolve }] of group.entries()) resolve(results[i])
  }

  const queue = <T>(work: () => T, vital: boolean, held?: Held<T>): Promise<T> =>
    new Promise<T>((resolve, reject) => {
      if (!vital && reserve.isFull()) return reject(diskFull())
      const one = { work, resolve: resolve as (value: unknown) => void, reject, vital, held: held as Held<unknown> | undefined }
      if (pending.push(one) === 1) setImmediate(flush)
    })

  return {
    write: Object.assign(<T>(work: () => T) => queue(work, false), {
      vital: <T>(work: () => T, held?: Held<T>) => queue(work, true, held),
    }),
    [Symbol.dispose]() {
      writeHeld()
      clearTimeout(retry)
    },
  }
}
