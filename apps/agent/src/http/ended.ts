import type { KillCause } from '@boxoffice/protocol'
import type { SessionEnd } from './revocations.ts'

/** Why the session ended, if that is what killed a process; undefined for every other cause. */
export const endedWith = (cause: KillCause | null): 'released' | 'expired' | 'revoked' | undefined =>
  cause === 'released' || cause === 'expired' || cause === 'revoked' ? cause : undefined

/** What processes are told to have died of when their session ends [C-28]. */
export const causeOf = (end: SessionEnd): KillCause => (end === 'released' ? 'released' : end === 'failed' ? 'stopped' : 'expired')

/** Seconds between TERM and KILL at the end of a session. */
export const KILL_GRACE_MS = 5000
