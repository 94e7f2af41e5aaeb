import type { StartExecFrame } from '@boxoffice/protocol'

export type AttachMode = NonNullable<StartExecFrame['mode']>

/** One socket that reads a process, as the others of that process see it. */
export interface Attached {
  readonly mode: AttachMode
  /** Its client may still use the process. */
  readonly entitled: boolean
  /** A newer socket has taken the process over. */
  takenOver(): void
  /** This socket's size counts from now on. */
  becameOwner(): void
}

/** Which sockets read which process: takeover, and who decides the size of a terminal (contract 3.4, 3.5). */
export interface Attachments {
  /** True when the newcomer owns the size. A takeover ends the others. */
  join(sandboxId: string, processId: string, member: Attached): boolean
  leave(sandboxId: string, processId: string, member: Attached): void
  others(sandboxId: string, processId: string, member: Attached): Attached[]
  owns(sandboxId: string, processId: string, member: Attached): boolean
  claim(sandboxId: string, processId: string, member: Attached): void
}

type Entry = { members: Attached[]; owner: Attached | undefined }

export const createAttachments = (): Attachments => {
  const entries = new Map<string, Entry>()
  const find = (sandboxId: string, processId: string): Entry | undefined => entries.get(`${sandboxId}/${processId}`)

  return {
    join(sandboxId, processId, member) {
      const key = `${sandboxId}/${processId}`
      const entry = entries.get(key) ?? { members: [], owner: undefined }
      entries.set(key, entry)
      const replaced = member.mode === 'takeover' ? entry.members : []
      if (member.mode === 'takeover') {
        entry.members = []
        entry.owner = undefined
      }
      entry.members.push(member)
      if (entry.owner === undefined && member.mode !== 'viewer') entry.owner = member
      for (const other of replaced) other.takenOver()
      return entry.owner === member
    },
    leave(sandboxId, processId, member) {
      const entry = find(sandboxId, processId)
      if (entry === undefined) return
      entry.members = entry.members.filter((one) => one !== member)
      if (entry.members.length === 0) entries.delete(`${sandboxId}/${processId}`)
      if (entry.owner !== member) return
      entry.owner = entry.members.find(({ mode }) => mode !== 'viewer')
      entry.owner?.becameOwner()
    },
    others: (sandboxId, processId, member) => find(sandboxId, processId)?.members.filter((one) => one !== member) ?? [],
    owns: (sandboxId, processId, member) => find(sandboxId, processId)?.owner === member,
    claim(sandboxId, processId, member) {
      const entry = find(sandboxId, processId)
      if (entry?.members.includes(member) && member.mode !== 'viewer') entry.owner = member
    },
  }
}
