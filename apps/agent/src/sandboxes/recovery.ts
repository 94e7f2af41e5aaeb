import { readdir, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type AgentInstructions, SANDBOX_ID_PATTERN } from '@boxoffice/protocol'
import type { Logger } from 'pino'
import type { RevocationStore } from '../auth/revocations.ts'
import { loadSandboxFiles } from '../data-dir/record-file.ts'
import type { Provider, SandboxHandle } from '../sandbox/provider.ts'
import type { SandboxManager } from './manager.ts'

/** What an earlier run left: sandboxes that are adopted at once, and strays that wait for the broker's word. */
export interface Recovery {
  /**
   * Finds and adopts, one after the other until `signal` is aborted. False when some are left: the engine could not list its sandboxes,
   * which is a warning and not an end [2-30], or there was no more time. Call it again then.
   */
  adopt(provider: Provider, signal?: AbortSignal): Promise<boolean>
  /** Does what the broker decided about the inventory, and removes strays with it, all at once [2-29]. */
  settle(decisions: AgentInstructions['decisions']): Promise<void>
}

export type RecoveryOptions = {
  manager: SandboxManager
  revocations: RevocationStore
  dataDirectory: string
  log: Logger
}

/** Reads the records of the earlier run and has the manager expect their sandboxes; to be awaited before any sandbox is made. */
export const openRecovery = async ({ manager, revocations, dataDirectory, log }: RecoveryOptions): Promise<Recovery> => {
  let strays: { provider: Provider; handle: SandboxHandle }[] = []
  let hasWarned = false
  const files = await loadSandboxFiles(join(dataDirectory, 'sandboxes'), (directory, err) =>
    log.warn({ directory, err }, 'a sandbox directory without a record is removed'),
  )
  await removeUnused(join(dataDirectory, 'workspaces'), new Set(files.map(({ workspace }) => workspace)))
  manager.recovery.expect(files)

  const listed = async (provider: Provider): Promise<SandboxHandle[] | undefined> => {
    try {
      return await Array.fromAsync(provider.sandboxes.list())
    } catch (err) {
      if (!hasWarned) log.warn({ err }, 'the provider could not list its sandboxes; none is adopted or cleaned up until it does')
      hasWarned = true
      return undefined
    }
  }

  return {
    async adopt(provider, signal) {
      const handles = await listed(provider)
      if (handles === undefined) return false
      // What has been made since the start is no stray.
      const made = new Set(manager.inventory.reports().map(({ sandbox_id: id }) => id))
      const unknown = new Set(handles.filter(({ id }) => !made.has(id)))
      const byId = new Map(handles.map((handle) => [handle.id, handle]))
      for (const file of files.filter(({ sandbox_id: id }) => manager.isAwaited(id))) {
        if (signal?.aborted) return false
        const handle = byId.get(file.sandbox_id)
        if (handle !== undefined) unknown.delete(handle)
        await manager.recovery
          .adopt(file, handle)
          .catch((err: unknown) => log.error({ err, sandbox_id: file.sandbox_id }, 'a sandbox could not be adopted'))
      }
      strays = [...unknown].map((handle) => ({ provider, handle }))
      if (files.length > 0 || strays.length > 0) log.info({ adopted: files.length, strays: strays.length }, 'recovered sandboxes')
      return !manager.recovery.isUnderWay
    },
    async settle(decisions) {
      const removals = decisions
        .filter(({ action }) => action === 'destroy')
        .map(({ sandbox_id: id, keep_workspace: keepWorkspace = false }) => {
          const session = manager.get(id)?.sessionId
          return manager.destroy(id, (session && revocations.deniedSession(session)) || 'failed', { keepWorkspace })
        })
      const orphans = strays.splice(0).map(({ provider, handle }) => provider.sandboxes.destroy(handle))
      for (const result of await Promise.allSettled([...removals, ...orphans])) {
        if (result.status === 'rejected') log.warn({ err: result.reason }, 'a sandbox that nobody keeps could not be removed')
      }
    },
  }
}

/** A crash in the middle of a start leaves a workspace that nobody has written to. */
const removeUnused = async (workspaces: string, used: ReadonlySet<string>): Promise<void> => {
  const unused = (await readdir(workspaces)).filter((name) => SANDBOX_ID_PATTERN.test(name) && !used.has(name))
  await Promise.all(unused.map((name) => rmdir(join(workspaces, name)).catch(() => {})))
}
