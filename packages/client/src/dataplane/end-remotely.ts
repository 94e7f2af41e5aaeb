import type { Dataplane } from './dataplane.ts'

/** What an aborted command that ignores TERM has left before KILL. */
const KILL_AFTER_SECONDS = 1

/**
 * Ends a command whose caller has aborted: it would live on for the disconnect grace of 30 s. The sandbox itself follows with KILL,
 * so this client need not stay. Best effort, nobody waits.
 */
export const endRemotely = (dataplane: Dataplane, execId: string): void => {
  dataplane
    .request(`/execs/${encodeURIComponent(execId)}/signal`, {
      method: 'POST',
      json: { signal: 'TERM', kill_after_seconds: KILL_AFTER_SECONDS },
      signal: AbortSignal.timeout(5_000),
      unwatched: true,
    })
    .then((response) => response.body?.cancel())
    .catch(() => {})
}
