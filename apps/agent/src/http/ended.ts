import type { BoxofficeError, KillCause } from '@boxoffice/protocol'

/**
 * Why the session ended, if that is what killed a process; undefined for every other cause. `revoked` is one of those: only somebody's
 * token or right has gone, and whoever still has theirs is told of a process that was killed.
 */
export const endedWith = (cause: KillCause | null): 'released' | 'expired' | undefined =>
  cause === 'released' || cause === 'expired' ? cause : undefined

/** What processes die of when this refusal ends their session or token [C-28]. */
export const killCause = ({ code, details }: BoxofficeError): 'released' | 'expired' | 'revoked' =>
  code !== 'SESSION_RELEASED' ? 'revoked' : details?.reason === 'released' ? 'released' : 'expired'

/** Between TERM and KILL at the end of a session. */
export const KILL_GRACE_MS = 5000
