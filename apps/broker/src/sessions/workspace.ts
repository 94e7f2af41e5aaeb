import { isLive, isPlaced, type Session } from './session.ts'

/** `hold`: the scope's workspace is with this session's agent. `forget`: nobody wants it any more, wherever it is [C-55]. */
export type WorkspaceFate = 'hold' | 'forget'

/** What a change of a session means for its scope's workspace; null: nothing new. */
export function workspaceAfter(before: Session, after: Session): WorkspaceFate | null {
  if (isLive(after)) return after.profile.persistent && !isPlaced(before) && isPlaced(after) ? 'hold' : null
  if (after.state === 'failed' || after.reason !== 'released') return null
  if (after.keepWorkspace) return after.placed === null ? null : 'hold'
  return after.profile.persistent ? null : 'forget'
}
