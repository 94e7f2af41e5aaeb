import type { Capability } from '@boxoffice/protocol'
import type { PlacedSession } from '../domain/session.ts'
import type { AgentRecord } from '../store/store.ts'

/** `expiresAt` by the monotonic clock, in milliseconds. */
export type KnownToken = { token: string; expiresAt: number; kid: string }

/** A token is used no longer than until this before its end. */
export const RENEW_BEFORE_MS = 60_000

/** Where a session is, and a token for it. `refused` is told that the agent does not take it: the next access brings another one. */
export type Access = KnownToken & { session: PlacedSession; agent: AgentRecord; refused: () => void }

/** For whom the broker uses a dataplane: `actor` is `sub` of its tokens, and they grant no more than `capabilities`. */
export type DataplaneActor = { actor: string; capabilities: readonly Capability[] }
