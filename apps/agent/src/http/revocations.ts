import type { Revocations } from '@boxoffice/protocol'

export type SessionEnd = Revocations['sessions'][number]['reason']

/** The deny-list that every request and every open socket is checked against [C-30]. */
export interface RevocationStore {
  /** Why the session has ended, or undefined while it may be used. */
  deniedSession(sessionId: string): SessionEnd | undefined
  deniedToken(jti: string): boolean
  /** Tokens of this sandbox issued before this (Unix seconds) are refused; 0 when there is no such bound. */
  minimumIssuedAt(sandboxId: string): number
  /** Adds what the broker pushed; listeners hear of it before this returns. */
  apply(revocations: Revocations): void
  /** For what is open already. Returns a function that takes the listener off again. */
  onChange(listener: () => void): () => void
}

type Entry<T> = { value: T; until: number }

/** Entries go when their time is over: by then no token that they deny is in date. */
export const createRevocationStore = (now: () => number = () => Date.now() / 1000): RevocationStore => {
  const sessions = new Map<string, Entry<SessionEnd>>()
  const tokens = new Map<string, Entry<true>>()
  const sandboxes = new Map<string, Entry<number>>()
  const listeners = new Set<() => void>()

  const find = <T>(entries: Map<string, Entry<T>>, key: string): T | undefined => {
    const entry = entries.get(key)
    return entry === undefined || entry.until < now() ? undefined : entry.value
  }

  const expire = <T>(entries: Map<string, Entry<T>>): void => {
    for (const [key, { until }] of entries) if (until < now()) entries.delete(key)
  }

  return {
    deniedSession: (sessionId) => (sessions.size === 0 ? undefined : find(sessions, sessionId)),
    deniedToken: (jti) => tokens.size > 0 && find(tokens, jti) === true,
    minimumIssuedAt: (sandboxId) => (sandboxes.size === 0 ? 0 : (find(sandboxes, sandboxId) ?? 0)),
    apply(revocations) {
      for (const entries of [sessions, tokens, sandboxes]) expire<unknown>(entries)
      for (const { session_id, reason, until } of revocations.sessions) sessions.set(session_id, { value: reason, until })
      for (const { jti, until } of revocations.tokens) tokens.set(jti, { value: true, until })
      for (const { sandbox_id, min_iat, until } of revocations.sandboxes ?? []) sandboxes.set(sandbox_id, { value: min_iat, until })
      for (const listener of [...listeners]) listener()
    },
    onChange(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
}
