import type { Jwks } from '@boxoffice/protocol'
import { byAge, newSigningKey, type SigningKey } from './signing-key.ts'

/**
 * JWKS are cached for 300 s [C-49]: a key is published for longer than that before it signs, so no agent ever meets a token
 * whose key it could not have.
 */
const PUBLISH_AHEAD_MS = 330_000
/** A key stays published for longer than the longest token after its successor has taken over. */
const OVERLAP_MS = (3600 + 300) * 1000

/** What a place has of keys: those that count, and the ids of withdrawn ones. */
export type FoundKeys = { keys: SigningKey[]; withdrawn: ReadonlySet<string> }

/** Where brokers keep their signing keys: files of a directory, or rows of a database. */
export interface SigningKeyPlace {
  /** What is there now; undefined when that is what was read before. Throws `StartError` at the first time for keys that cannot be used. */
  read(): Promise<FoundKeys | undefined>
  /** False when another broker has added one since the last `read`, and nothing is added. Times in Unix milliseconds. */
  add(key: SigningKey, createdAt: number): Promise<boolean>
  remove(kids: readonly string[]): Promise<void>
  /** Ends keys, and tells other brokers that it was not by age. */
  withdraw(kids: readonly string[], at: number): Promise<void>
  /** Removes what says that keys were withdrawn, where that was before. */
  forgetWithdrawn(before: number): Promise<void>
}

/** The keys that sign tokens, which brokers of one place share. */
export class SigningKeys {
  readonly #place: SigningKeyPlace
  readonly #now: () => number
  /** As they were found, the oldest first. */
  #found: readonly SigningKey[] = []
  /** Those of them that a token may still need: an old row that somebody puts back counts no more. */
  #keys: readonly SigningKey[] = []
  #withdrawn: ReadonlySet<string> = new Set()
  #readAt = Number.NEGATIVE_INFINITY

  private constructor(place: SigningKeyPlace, now: () => number) {
    this.#place = place
    this.#now = now
  }

  /** Reads the keys; makes the first one when there is none. */
  static async open(place: SigningKeyPlace, now: () => number): Promise<SigningKeys> {
    const keys = new SigningKeys(place, now)
    await keys.reload()
    if (keys.#keys.length === 0) await keys.#add(now())
    return keys
  }

  /** The key that signs now: the newest that is active. */
  get current(): SigningKey {
    const now = this.#now()
    const current = this.#keys.findLast((key) => key.activeAt <= now) ?? this.#keys[0]
    if (current === undefined) throw new Error('no signing key')
    return current
  }

  /** What `/.well-known/jwks.json` shows: keys in use, before and after [C-49]. */
  get jwks(): Jwks {
    return { keys: this.#keys.map(({ jwk }) => jwk) }
  }

  /** Whether a key is one of these; those of other brokers are known since keys were last read. */
  has(kid: string): boolean {
    return this.#keys.some((key) => key.kid === kid)
  }

  /** Whether a key has been withdrawn by `replace`, here or by another broker. */
  wasWithdrawn(kid: string): boolean {
    return this.#withdrawn.has(kid)
  }

  /** Adds the next key, unless another broker is just doing so. It is published at once and signs once every JWKS cache has it. */
  async rotate(): Promise<void> {
    await this.#add(this.#now() + PUBLISH_AHEAD_MS)
  }

  /** For a leaked key: a new one signs at once, and all others count no more [C-49]. Resolves with the ids of those. */
  async replace(): Promise<string[]> {
    await this.reload()
    const withdrawn = this.#keys.map(({ kid }) => kid)
    const isReplaced = () => this.#keys.some(({ kid, activeAt }) => !withdrawn.includes(kid) && activeAt <= this.#now())
    // Another broker's key of this moment is none that has leaked; one that signs later is no replacement.
    while (!(await this.#add(this.#now())) && !isReplaced());
    await this.#place.withdraw(withdrawn, this.#now())
    await this.reload()
    this.#forget(withdrawn)
    return withdrawn
  }

  /** Rotates when the newest key is older than `maxAgeMs`, and drops keys that no token can need any more. */
  async maintain(maxAgeMs: number): Promise<void> {
    await this.reload()
    const now = this.#now()
    const newest = this.#keys.at(-1)
    if (newest === undefined) await this.#add(now)
    else if (now - newest.activeAt > maxAgeMs) await this.rotate()
    const unused = this.#found.filter((key) => !neededOf(this.#found, now).includes(key))
    await this.#place.remove(unused.map(({ kid }) => kid))
    await this.#place.forgetWithdrawn(now - OVERLAP_MS)
    if (unused.length > 0) await this.reload()
  }

  /** Looks for keys of other brokers. */
  async reload(): Promise<void> {
    const at = performance.now()
    const found = await this.#place.read()
    this.#readAt = at
    if (found === undefined) return
    this.#found = found.keys.toSorted(byAge)
    this.#keys = neededOf(this.#found, this.#now())
    this.#withdrawn = found.withdrawn
  }

  /** The same, unless that was less than `ms` ago: for what many ask at once. */
  async reloadAfter(ms: number): Promise<void> {
    if (performance.now() - this.#readAt >= ms) await this.reload()
  }

  #forget(kids: readonly string[]): void {
    this.#found = this.#found.filter(({ kid }) => !kids.includes(kid))
    this.#keys = this.#keys.filter(({ kid }) => !kids.includes(kid))
    this.#withdrawn = new Set([...this.#withdrawn, ...kids])
  }

  async #add(activeAt: number): Promise<boolean> {
    const isAdded = await this.#place.add(await newSigningKey(activeAt), this.#now())
    await this.reload()
    return isAdded
  }
}

const neededOf = (keys: readonly SigningKey[], now: number): SigningKey[] =>
  keys.filter((_, at) => (keys[at + 1]?.activeAt ?? Number.POSITIVE_INFINITY) + OVERLAP_MS >= now)
