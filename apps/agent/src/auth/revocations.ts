import { type Capability, MAX_SESSION_TOKEN_SECONDS, type Revocations, type SessionEnd, type SessionTokenClaims } from '@boxoffice/protocol'

/** The deny-list that every request and every open socket is checked against [C-30]. */
export interface RevocationStore {
  /** Why the session has ended, or undefined while it may be used. */
  deniedSession(sessionId: string): SessionEnd | undefined
  deniedToken(jti: string): boolean
  /** Tokens of this sandbox issued before this (Unix seconds) are refused; 0 when there is no such bound. */
  minimumIssuedAt(sandboxId: string): number
  /** What a token still grants: its `caps`, less what its actor has lost since it was issued [C-57]. */
  granted(claims: Pick<SessionTokenClaims, 'sid' | 'sub' | 'iat' | 'caps'>): readonly Capability[]
  /** Adds what the broker pushed; listeners hear of it before this returns. What is known already changes nothing. */
  apply(revocations: Revocations): void
  /** Denies a session that has ended for as long as a token of it may be in date; the broker's own word may come later, and replaces this. */
  endSession(sessionId: string, reason: SessionEnd): void
  /** All that is in force, as `apply` takes it. */
  snapshot(): Required<Revocations>
  /** For what is open already. Returns a function that takes the listener off again. */
  onChange(listener: () => void): () => void
}

type Kind = keyof Revocations
type Entry<K extends Kind> = Required<Revocations>[K][number]

/** Two pushes of one narrowing are one entry; a later narrowing of the same actor stands beside it. */
const KEYS: { [K in Kind]: (entry: Entry<K>) => string } = {
  sessions: ({ session_id }) => session_id,
  tokens: ({ jti }) => jti,
  sandboxes: ({ sandbox_id }) => sandbox_id,
  grants: ({ session_id, sub, caps, before }) => JSON.stringify([session_id, sub, before, [...caps].sort()]),
}

/** The entries of one kind. They go when their time is over: by then no token that they deny is in date. */
class Entries<K extends Kind> {
  readonly #key: (entry: Entry<K>) => string
  readonly #entries = new Map<string, Entry<K>>()

  constructor(kind: K) {
    this.#key = KEYS[kind]
  }

  get size(): number {
    return this.#entries.size
  }

  find(key: string, now: number): Entry<K> | undefined {
    const entry = this.#entries.get(key)
    return entry === undefined || entry.until < now ? undefined : entry
  }

  *inForce(now: number): Generator<Entry<K>> {
    for (const entry of this.#entries.values()) if (entry.until >= now) yield entry
  }

  /** True when this says something new. */
  add(added: readonly Entry<K>[], now: number): boolean {
    for (const [key, { until }] of this.#entries) if (until < now) this.#entries.delete(key)
    let changed = false
    for (const entry of added) {
      if (entry.until < now) continue
      const key = this.#key(entry)
      changed ||= JSON.stringify(this.#entries.get(key)) !== JSON.stringify(entry)
      this.#entries.set(key, entry)
    }
    return changed
  }
}

/** Clocks that differ, and tokens that were signed a moment before the end. */
const END_LEEWAY_SECONDS = 60

/** `now` is in Unix seconds, by the broker's clock [C-77]. */
export const createRevocationStore = (now: () => number): RevocationStore => {
  const sessions = new Entries('sessions')
  const tokens = new Entries('tokens')
  const sandboxes = new Entries('sandboxes')
  const grants = new Entries('grants')
  const listeners = new Set<() => void>()

  const apply: RevocationStore['apply'] = (added) => {
    const at = now()
    const changes = [
      sessions.add(added.sessions, at),
      tokens.add(added.tokens, at),
      sandboxes.add(added.sandboxes ?? [], at),
      grants.add(added.grants ?? [], at),
    ]
    if (changes.includes(true)) for (const listener of [...listeners]) listener()
  }

  // Every request asks: nothing is looked up, and no clock read, where there is nothing to find.
  return {
    deniedSession: (sessionId) => (sessions.size === 0 ? undefined : sessions.find(sessionId, now())?.reason),
    deniedToken: (jti) => tokens.size > 0 && tokens.find(jti, now()) !== undefined,
    minimumIssuedAt: (sandboxId) => (sandboxes.size === 0 ? 0 : (sandboxes.find(sandboxId, now())?.min_iat ?? 0)),
    granted({ sid, sub, iat, caps }) {
      if (grants.size === 0) return caps
      const narrowings = [...grants.inForce(now())].filter((one) => one.session_id === sid && one.sub === sub && iat <= one.before)
      return caps.filter((capability) => narrowings.every((one) => one.caps.includes(capability)))
    },
    apply,
    endSession(sessionId, reason) {
      const until = Math.ceil(now()) + MAX_SESSION_TOKEN_SECONDS + END_LEEWAY_SECONDS
      apply({ sessions: [{ session_id: sessionId, reason, until }], tokens: [] })
    },
    snapshot() {
      const at = now()
      return {
        sessions: [...sessions.inForce(at)],
        tokens: [...tokens.inForce(at)],
        sandboxes: [...sandboxes.inForce(at)],
        grants: [...grants.inForce(at)],
      }
    },
    onChange(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
}
