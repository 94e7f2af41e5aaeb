import { statfsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { type Db, isBusy } from './database.ts'

/** Free pages inside the database that stay for what must be written on a full disk: about 1,500 releases. */
const RESERVED_PAGES = 512
/** Free pages after a refill; what lies between is for ordinary growth, so that a refill is rare. */
const REFILLED_PAGES = 2 * RESERVED_PAGES
const PAGE_BYTES = 4096
/** What fits into an overflow page. */
const BLOB_BYTES_PER_PAGE = PAGE_BYTES - 4

/** With less than this the disk counts as full: the last of it is not the broker's alone. */
const FULL_BYTES = RESERVED_PAGES * PAGE_BYTES
/** What a refill writes into the WAL, with the frames' heads and some pages of the index. */
const REFILL_WAL_BYTES = (REFILLED_PAGES + 32) * (PAGE_BYTES + 24)

/** The disk is looked at at most this often. */
const LOOK_MS = 250
/** Commits between two counts of the free pages. */
const COUNT_EVERY = 16

/**
 * Keeps free pages inside the database file, and room inside its WAL, so that small writes work on a full disk: SQLite takes the
 * pages of its freelist before it grows the file, and overwrites a WAL that has been checkpointed. The pages are made once by
 * writing them, as only pages that have been written have a place on the disk.
 */
export class Reserve {
  readonly #db: Db
  readonly #path: string
  readonly #insert
  readonly #remove
  readonly #freePages
  #isFull = false
  #lookedAt = Number.NEGATIVE_INFINITY
  #commits = 0

  /** `path`: of the database. */
  constructor(db: Db, path: string) {
    this.#db = db
    this.#path = path
    this.#insert = db.prepare(`INSERT INTO reserve (pages) VALUES (zeroblob(${REFILLED_PAGES * BLOB_BYTES_PER_PAGE}))`)
    this.#remove = db.prepare('DELETE FROM reserve')
    this.#freePages = db.prepare('PRAGMA freelist_count').pluck()
    // Always at a start, as the WAL begins without any room.
    if (!this.#refill()) {
      this.#free()
      this.#isFull = this.#isShort(FULL_BYTES) || this.#count() === 0
    }
  }

  /** Whether only what must be written may be; asks the disk again when the last response is old. */
  isFull({ now = false } = {}): boolean {
    const at = performance.now()
    if (!now && at - this.#lookedAt < LOOK_MS) return this.#isFull
    this.#lookedAt = at
    if (this.#isShort(FULL_BYTES)) this.#isFull = true
    else if (this.#isFull) this.#isFull = !this.#refill()
    return this.#isFull
  }

  /** A write has failed for want of space, whatever the disk says of itself: a quota may be what is used up. */
  wasFull(): void {
    this.#isFull = true
    this.#lookedAt = performance.now()
  }

  /** To be called after each commit; makes new free pages when ordinary growth has used its share of them. */
  committed(): void {
    if (++this.#commits % COUNT_EVERY !== 0 || this.#isFull) return
    if (this.#count() < RESERVED_PAGES && !this.#refill()) this.wasFull()
  }

  /** Writes what the WAL holds into the database, so that the next write begins at the start of the WAL. */
  reuseWal(): void {
    this.#db.pragma('wal_checkpoint(RESTART)')
  }

  /** False when there is no space for it. */
  #refill(): boolean {
    try {
      // Whatever the WAL has grown to is used again.
      this.#db.pragma('wal_checkpoint(PASSIVE)')
      if (this.#isShort(FULL_BYTES + this.#refillBytes())) return false
      // First in the database file itself, then free: a page that is freed while it is only in the WAL is never written.
      this.#insert.run()
      this.#db.pragma('wal_checkpoint(PASSIVE)')
      this.#remove.run()
      return true
    } catch (thrown) {
      // Another broker writes; the next count tries again.
      if (isBusy(thrown)) return true
      this.#free()
      return false
    }
  }

  /** By how much a refill makes the database and its WAL grow. */
  #refillBytes(): number {
    const wal = statSync(`${this.#path}-wal`, { throwIfNoEntry: false })?.size ?? 0
    return Math.max(0, REFILLED_PAGES - this.#count()) * PAGE_BYTES + Math.max(0, REFILL_WAL_BYTES - wal)
  }

  /** Frees what a refill that did not come to its end has left. */
  #free(): void {
    try {
      this.#remove.run()
    } catch {
      // The next refill removes it.
    }
  }

  #count(): number {
    try {
      return this.#freePages.get() as number
    } catch {
      return 0
    }
  }

  #isShort(bytes: number): boolean {
    const { blocks, bfree, bavail, bsize } = statfsSync(dirname(this.#path))
    // Some network file systems do not say how large they are.
    if (blocks === 0) return false
    return (process.getuid?.() === 0 ? bfree : bavail) * bsize < bytes
  }
}
