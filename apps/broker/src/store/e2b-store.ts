import type { Capability } from '@boxoffice/protocol'

/** A sandbox of the E2B facade: what E2B's clients know of it beside its session. Times in milliseconds. */
export type E2bSandbox = {
  id: string
  tenant: string
  /** Who made it. */
  principal: string
  sessionId: string
  threadId: string
  template: string
  metadata: Readonly<Record<string, string>>
  /** It is paused at `endAt`, not ended. */
  autoPause: boolean
  /** Its session was made for it, so that it ends with it. */
  madeSession: boolean
  startedAt: number
  endAt: number
  paused: boolean
}

/** An access token; the token itself is shown once and never kept. */
export type E2bToken = { hash: string; sandboxId: string; actor: string; capabilities: readonly Capability[]; madeAt: number }

/** Of one tenant, oldest first, after a position. `principal`: whose; null: of everybody. */
export type E2bListing = { tenant: string; principal: string | null; after: { startedAt: number; id: string } | null; limit: number }

/** Sandboxes and access tokens of the E2B facade (contract 7.3). */
export interface E2bStore {
  insert(sandbox: E2bSandbox): Promise<void>
  byId(id: string): Promise<E2bSandbox | undefined>
  bySession(sessionId: string): Promise<E2bSandbox | undefined>
  list(listing: E2bListing): Promise<E2bSandbox[]>
  /** Changes when it ends, and whether it is paused. False when there is no such sandbox. */
  set(id: string, change: { endAt: number; paused: boolean }): Promise<boolean>
  /** Those that are not paused and whose end has come, most overdue first. */
  due(now: number, limit: number): Promise<E2bSandbox[]>
  /** Forgets it, with its tokens. */
  remove(id: string): Promise<void>
  /** Adds a token; of more than `most` of one sandbox the oldest go. */
  addToken(token: E2bToken, most: number): Promise<void>
  byToken(hash: string): Promise<{ sandbox: E2bSandbox; token: E2bToken } | undefined>
}
