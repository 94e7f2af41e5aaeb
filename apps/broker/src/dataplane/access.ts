import type { Capability } from '@boxoffice/protocol'
import { intersect } from '../domain/capabilities.ts'
import type { PlacedSession } from '../domain/session.ts'
import type { GrantRecord } from '../store/session-store.ts'
import type { AgentRecord } from '../store/store.ts'

/** `expiresAt` by the monotonic clock, in milliseconds. */
export type KnownToken = { token: string; expiresAt: number; kid: string }

/** A token is used no longer than until this before its end. */
export const RENEW_BEFORE_MS = 60_000

/** Where a session is, and a token for it. `refused` is told that the agent does not take it: the next access brings another one. */
export type Access = KnownToken & { session: PlacedSession; agent: AgentRecord; refused: () => void }

/**
 * For whom the broker uses a dataplane: `actor` is `sub` of its tokens, and they grant no more than `capabilities`. `allowedAt`: whole Unix
 * seconds at which they were allowed, as tokens are dated; what has narrowed the actor's grant since holds all the same [C-57].
 */
export type DataplaneActor = { actor: string; capabilities: readonly Capability[]; allowedAt: number }

/** What an actor may do now. `notBefore`: an agent believes a token dated before (Unix seconds) less. */
export type Held = { actor: string; capabilities: readonly Capability[]; notBefore: number }

/** Holds an actor to its grant as it is now, by the rule of agents for session tokens [C-57]. */
export function heldTo(grant: GrantRecord | undefined, { actor, capabilities, allowedAt }: DataplaneActor): Held {
  const { narrowedTo = null, narrowedAt = null } = grant ?? {}
  if (narrowedTo === null || narrowedAt === null) return { actor, capabilities, notBefore: 0 }
  const left = allowedAt > narrowedAt ? capabilities : intersect(capabilities, narrowedTo)
  return { actor, capabilities: left, notBefore: narrowedAt + 1 }
}
