import { type CreateSandboxRequest, MountSet, profileMounts, type SandboxRecord, sameMounts } from '@boxoffice/protocol'
import type { Logger } from 'pino'
import type { Layout } from '../data-dir/layout.ts'
import { prepareMounts } from '../mounts/plan.ts'
import { type EndCause, type EndReason, endError, lostError, REMADE, recoveringError } from '../sandbox/end.ts'
import type { LiveSandbox } from './live/live-sandbox.ts'
import type { Planner } from './provision/planner.ts'
import type { Pool } from './provision/pool.ts'
import { profileHash } from './provision/profile-hash.ts'
import type { Plan } from './provision/provision.ts'
import { recordOf } from './reports.ts'
import type { Workspaces } from './workspaces.ts'

export type SessionSandboxesOptions = {
  layout: Layout
  planner: Planner
  pool: Pick<Pool, 'claim'>
  workspaces: Pick<Workspaces, 'claim'>
  provision: (plan: Plan) => Promise<LiveSandbox>
  destroy: (id: string, cause: EndCause) => Promise<void>
  defaultImage: string
  /** How a session has ended, as far as the broker has said. */
  sessionEnd: (sessionId: string) => EndReason | undefined
  /** Whether sandboxes of an earlier run are still to be adopted. */
  isRecovering: () => boolean
  /** Hears of one from the pool that has become a session's. */
  onAssigned: (sandbox: LiveSandbox) => void
  log: Logger
}

/** Which sandbox each session has, and how it comes to one. */
export interface SessionSandboxes {
  /** The session's sandbox, made if there is none yet; the same one for any number of callers. */
  ensure(sessionId: string, request: CreateSandboxRequest): Promise<SandboxRecord>
  /** One that is its session's from now on. */
  add(sandbox: LiveSandbox): void
  /** It is its session's no more. */
  delete(sandbox: LiveSandbox): void
  /** Resolves when nothing is being made. */
  settled(): Promise<void>
}

export const createSessionSandboxes = (options: SessionSandboxesOptions): SessionSandboxes => {
  const { layout, planner, pool, workspaces, provision, destroy, defaultImage, sessionEnd, isRecovering, onAssigned, log } = options
  const bySession = new Map<string, LiveSandbox>()
  const provisioning = new Map<string, { mounts: MountSet; record: Promise<SandboxRecord> }>()

  const create = async (sessionId: string, request: CreateSandboxRequest): Promise<SandboxRecord> => {
    const { profile, labels } = request
    const mounts = MountSet.parse(request)
    // A directory of the host is its own keeper.
    const keptAs = request.workspace_host_path === null ? request.workspace_id : null
    // Before anything of an earlier session ends for it.
    await planner.mounts(mounts, profile)
    using claim = keptAs === null ? null : await workspaces.claim(keptAs, sessionId, request)
    const workspace = claim?.mounted ? keptAs : null
    const pooled =
      workspace === null && Object.keys(labels).length === 0 && sameMounts(mounts, profileMounts(profile))
        ? pool.claim(profileHash(profile, defaultImage))
        : undefined
    if (pooled !== undefined) {
      bySession.set(sessionId, pooled)
      await pooled.assign(sessionId, profile, keptAs)
      onAssigned(pooled)
      return recordOf(pooled, true)
    }
    return recordOf(await provision({ profile, sessionId, workspace, keptAs, mounts, labels, previous: null }), false)
  }

  // Not async: nothing may come between the look and the entry.
  const ensure = (sessionId: string, request: CreateSandboxRequest): Promise<SandboxRecord> => {
    // One of those that are awaited may be the session's, or have its workspace.
    if (isRecovering()) return Promise.reject(recoveringError())
    const underWay = provisioning.get(sessionId)
    if (underWay !== undefined && sameMounts(underWay.mounts, request)) return underWay.record
    // Each has its turn, and finds what the one before it has left.
    const next = () => ensure(sessionId, request)
    if (underWay !== undefined) return underWay.record.then(next, next)
    const existing = bySession.get(sessionId)
    if (existing?.lost !== undefined) return Promise.reject(lostError(existing.lost.reason))
    if (existing !== undefined && sameMounts(existing.file.mounts, request)) return Promise.resolve(recordOf(existing, false))
    const record = make(sessionId, existing, request).finally(() => provisioning.delete(sessionId))
    provisioning.set(sessionId, { mounts: MountSet.parse(request), record })
    return record
  }

  /** A session that has ended meanwhile gets nothing: its release may have come before there was anything to end. */
  const make = async (sessionId: string, existing: LiveSandbox | undefined, request: CreateSandboxRequest): Promise<SandboxRecord> => {
    refuseIfEnded(sessionId)
    const record = await (existing === undefined ? create(sessionId, request) : remake(existing, request))
    const reason = sessionEnd(sessionId)
    if (reason !== undefined) await destroy(record.sandbox_id, reason)
    refuseIfEnded(sessionId)
    return record
  }

  const refuseIfEnded = (sessionId: string): void => {
    const reason = sessionEnd(sessionId)
    if (reason !== undefined) throw endError({ lost: false, reason })
  }

  /**
   * Ends the sandbox and makes it anew under its id, with other mounts; a workspace of our making stays [0-34, C-23]. What is refused
   * is refused before anything ends.
   */
  const remake = async (sandbox: LiveSandbox, request: CreateSandboxRequest): Promise<SandboxRecord> => {
    const { file } = sandbox
    const { profile, session_id: sessionId, kept_as: keptAs, workspace } = file
    const mounts = MountSet.parse(request)
    const plan = await planner.mounts(mounts, profile)
    const existing = await layout.ownerOf(workspace)
    const owner = await planner.owner(plan, profile, existing)
    const directory = plan.workspace?.source ?? (existing === undefined ? undefined : layout.workspaceOf(workspace))
    if (directory !== undefined) await prepareMounts(plan, directory, owner)
    log.info(
      { sandbox_id: sandbox.id, session_id: sessionId, before: file.mounts, after: mounts },
      'a sandbox is made anew, with other mounts',
    )
    await sandbox.end(REMADE)
    try {
      await layout.clearSandbox(sandbox.id)
      return recordOf(
        await provision({ profile, sessionId, workspace, keptAs, mounts, labels: request.labels, previous: { file, owner } }),
        false,
      )
    } catch (error) {
      // Nothing is left that the session could go on with.
      await destroy(sandbox.id, 'failed')
      throw error
    }
  }

  return {
    ensure,
    add(sandbox) {
      if (sandbox.file.session_id !== null) bySession.set(sandbox.sessionId, sandbox)
    },
    delete(sandbox) {
      if (bySession.get(sandbox.sessionId) === sandbox) bySession.delete(sandbox.sessionId)
    },
    async settled() {
      await Promise.allSettled([...provisioning.values()].map(({ record }) => record))
    },
  }
}
