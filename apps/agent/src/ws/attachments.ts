import type { StartExecFrame } from '@boxoffice/protocol'

export type AttachMode = NonNullable<StartExecFrame['mode']>
export type Size = { cols: number; rows: number }

/** One socket that reads a process, as the others of that process see it. */
export interface Attached {
  readonly mode: AttachMode
  /** Its client may still use the process. */
  readonly entitled: boolean
  /** A newer socket has taken the process over. */
  takenOver(): void
  /** This socket's size counts from now on. */
  becameOwner(): void
  /** Somebody has come who needs the whole screen, not only what changes on it. */
  redraw(): void
}

/** A socket's place among those that read its process. */
export interface Place {
  /** Whose size counts: the socket's that started the terminal, then the one's that has been attached longest and is no viewer. */
  readonly owner: Attached | undefined
  readonly others: readonly Attached[]
  /** What the terminal's size was set to last. */
  size: Size | undefined
  /** Takes the size over; a viewer cannot. */
  claim(): void
  leave(): void
}

/** Which sockets read which process: takeover, and who decides the size of a terminal (contract 3.4, 3.5). */
export interface Attachments {
  /** A takeover ends the others. */
  join(sandboxId: string, processId: string, member: Attached): Place
}

type Entry = { members: Attached[]; owner: Attached | undefined; size: Size | undefined }

export const createAttachments = (): Attachments => {
  const entries = new Map<string, Entry>()

  const leave = (key: string, entry: Entry, member: Attached): void => {
    entry.members = entry.members.filter((one) => one !== member)
    if (entry.members.length === 0 && entries.get(key) === entry) entries.delete(key)
    if (entry.owner !== member) return
    entry.owner = entry.members.find(({ mode }) => mode !== 'viewer')
    entry.owner?.becameOwner()
  }

  return {
    join(sandboxId, processId, member) {
      const key = `${sandboxId}/${processId}`
      const entry = entries.get(key) ?? { members: [], owner: undefined, size: undefined }
      entries.set(key, entry)
      const replaced = member.mode === 'takeover' ? entry.members : []
      if (member.mode === 'takeover') {
        entry.members = []
        entry.owner = undefined
      }
      entry.members.push(member)
      if (entry.owner === undefined && member.mode !== 'viewer') entry.owner = member
      for (const other of replaced) other.takenOver()
      return {
        get owner() {
          return entry.owner
        },
        get others() {
          return entry.members.filter((one) => one !== member)
        },
        get size() {
          return entry.size
        },
        set size(size) {
          entry.size = size
        },
        claim() {
          if (entry.members.includes(member) && member.mode !== 'viewer') entry.owner = member
        },
        leave: () => leave(key, entry, member),
      }
    },
  }
}
