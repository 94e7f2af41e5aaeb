import { isLive, isPlaced, type Session } from './session.ts'

/** A workspace with more entries is counted up to here and is over every quota: to count them takes longer than it is worth [2-119]. */
export const COUNTED_ENTRIES = 100_000

/** `hold`: the scope's workspace is with this session's agent. `forget`: nobody wants it any more, wherever it is [C-55]. */
export type WorkspaceFate = 'hold' | 'forget'

/** What a change of a session means for its scope's workspace; null: nothing new. */
export function workspaceAfter(before: Session, after: Session): WorkspaceFate | null {
  if (isLive(after)) return after.profile.persistent && !isPlaced(before) && isPlaced(after) ? 'hold' : null
  if (after.state === 'failed' || after.reason !== 'released') return null
  if (after.keepWorkspace) return after.placed === null ? null : 'hold'
  return after.profile.persistent ? null : 'forget'
}
