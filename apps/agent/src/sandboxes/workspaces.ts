import { BoxofficeError, type CreateSandboxRequest, type WorkspaceUsage } from '@boxoffice/protocol'
import type { Layout } from '../data-dir/layout.ts'
import type { SandboxFile } from '../data-dir/record-file.ts'
import type { Uids } from '../data-dir/uids.ts'
import { workspaceUsage } from '../mounts/workspace-usage.ts'
import type { EndReason } from '../sandbox/end.ts'

/** A sandbox as far as its workspace goes; `ending` with whether its workspace is being kept. */
export type WorkspaceUser = { file: SandboxFile; ending: { kept: boolean; ended: Promise<void> } | null }

export type WorkspacesOptions = {
  layout: Layout
  uids: Uids
  /** The sandboxes of this agent that have not ended and use or leave the workspace of this name. */
  users: (name: string) => WorkspaceUser[]
  destroy: (id: string, reason: EndReason, options: { keepWorkspace: boolean }) => Promise<void>
  /** Where the workspace of this sandbox is on the host. Throws BINDING_NOT_FOUND. */
  directoryOf: (id: string) => string
}

/** What is left of a scope's sandboxes on this agent: its workspace, by the name that the broker has for it [C-55]. */
export interface Workspaces {
  /**
   * Readies the scope's workspace for a new sandbox: earlier ones that have it or leave it end first. `mounted` says whether the new
   * one gets it. Until the claim is disposed nobody removes it.
   */
  claim(name: string, sessionId: string, request: CreateSandboxRequest): Promise<{ mounted: boolean } & Disposable>
  /** After a sandbox has ended: one of its own goes, or becomes its scope's. */
  leave(file: SandboxFile, keep: boolean): Promise<void>
  /** Removes a scope's workspace; one that is not there is fine. BINDING_CONFLICT while a sandbox uses it. */
  forget(name: string): Promise<void>
  /** What the workspace of this sandbox has on the disk; wakes nothing [2-119]. */
  usage(id: string, maxEntries: number): Promise<WorkspaceUsage>
}

export const createWorkspaces = ({ layout, uids, users, destroy, directoryOf }: WorkspacesOptions): Workspaces => {
  const claims = new Set<{ name: string }>()
  const forgetting = new Map<string, Promise<void>>()

  const remove = async (name: string): Promise<void> => {
    const owner = await layout.ownerOf(name)
    if (owner === undefined) return
    await layout.removeWorkspace(name)
    uids.free(owner.uid)
  }

  const ofScope = (name: string): WorkspaceUser[] =>
    users(name).filter(({ file }) => file.workspace === name || (file.kept_as === name && file.workspace === file.sandbox_id))

  const mountedBy = (name: string): WorkspaceUser | undefined =>
    users(name).find(({ file, ending }) => file.workspace === name && ending === null)

  /** One session of a scope lives at a time, so what is here of another has ended for the broker. */
  const endEarlier = async (name: string, sessionId: string, kept: readonly string[]): Promise<void> => {
    const earlier = ofScope(name).filter(({ file }) => file.session_id !== sessionId)
    await Promise.all(
      earlier.map(({ file, ending }) => {
        const keepWorkspace = ending?.kept ?? kept.includes(file.session_id ?? '')
        // Nobody waits for one whose workspace goes with it.
        if (!keepWorkspace && file.workspace !== name) return undefined
        return ending?.ended ?? destroy(file.sandbox_id, 'released', { keepWorkspace })
      }),
    )
  }

  const forget = async (name: string): Promise<void> => {
    await Promise.allSettled(ofScope(name).map(({ ending }) => ending?.ended))
    const user = mountedBy(name)
    if (user !== undefined || [...claims].some((claim) => claim.name === name))
      throw new BoxofficeError(
        'BINDING_CONFLICT',
        `the workspace is in use by sandbox ${user?.file.sandbox_id ?? 'that starts'}; release it first`,
      )
    await remove(name)
  }

  return {
    async claim(name, sessionId, { profile, kept_sessions: kept, discard_workspace: discard }) {
      const claim = { name }
      claims.add(claim)
      try {
        await forgetting.get(name)?.catch(() => {})
        await endEarlier(name, sessionId, kept)
        if (discard) await remove(name)
        const mounted = profile.persistent || (await layout.ownerOf(name)) !== undefined
        return { mounted, [Symbol.dispose]: () => void claims.delete(claim) }
      } catch (error) {
        claims.delete(claim)
        throw error
      }
    },
    async leave({ sandbox_id: id, workspace, kept_as: name, host_workspace: hosted, uid }, keep) {
      if (workspace !== id) return
      // Where a later sandbox has the scope's workspace already, that is the one to keep.
      if (keep && name !== null && mountedBy(name) === undefined) {
        if ((await layout.ownerOf(workspace)) === undefined) return
        await remove(name)
        await layout.renameWorkspace(workspace, name)
        return
      }
      await layout.removeWorkspace(workspace)
      // Who owns a directory of the host is nobody's to give away.
      if (hosted === null) uids.free(uid)
    },
    forget(name) {
      const underWay = forgetting.get(name)
      if (underWay !== undefined) return underWay
      const forgotten = forget(name).finally(() => forgetting.delete(name))
      forgetting.set(name, forgotten)
      return forgotten
    },
    usage: (id, maxEntries) => workspaceUsage(directoryOf(id), maxEntries),
  }
}
