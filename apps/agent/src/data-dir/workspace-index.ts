import type { SandboxFile } from './record-file.ts'

type Names = Pick<SandboxFile, 'sandbox_id' | 'workspace' | 'kept_as'>

/** Which sandboxes name a workspace, as theirs or as the one that theirs becomes; so that nobody walks over all of them. */
export interface WorkspaceIndex {
  /** Adds the names that a sandbox has now; those that it had before stay until it is deleted with them. */
  add(file: Names): void
  delete(file: Names): void
  /** Ids of sandboxes; empty where nobody names the workspace. */
  get(name: string): string[]
}

export const createWorkspaceIndex = (): WorkspaceIndex => {
  const ids = new Map<string, Set<string>>()
  const namesOf = ({ workspace, kept_as: keptAs }: Names): string[] => (keptAs === null ? [workspace] : [workspace, keptAs])
  return {
    add(file) {
      for (const name of namesOf(file)) {
        const users = ids.get(name)
        if (users === undefined) ids.set(name, new Set([file.sandbox_id]))
        else users.add(file.sandbox_id)
      }
    },
    delete(file) {
      for (const name of namesOf(file)) {
        const users = ids.get(name)
        users?.delete(file.sandbox_id)
        if (users?.size === 0) ids.delete(name)
      }
    },
    get: (name) => [...(ids.get(name) ?? [])],
  }
}
