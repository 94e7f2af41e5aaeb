import type { Server } from 'node:net'
import { withTimeout } from '@boxoffice/kit/with-timeout'
import {
  BoxofficeError,
  type CreateSandboxRequest,
  type EgressPolicy,
  type ManagedProcess,
  type OrderResponse,
  profileMounts,
  type SandboxRecord,
  type SandboxReport,
} from '@boxoffice/protocol'
import type { Journal } from '../broker-link/journal.ts'
import { descriptorLimit } from '../capacity/machine.ts'
import type { SandboxFile } from '../data-dir/record-file.ts'
import { createWorkspaceIndex } from '../data-dir/workspace-index.ts'
import type { EgressSettings } from '../egress/sandbox/sandbox-egress.ts'
import { AGENT_STOPPED, type EndCause, type EndReason, recoveringError } from '../sandbox/end.ts'
import type { Provider, SandboxHandle } from '../sandbox/provider.ts'
import type { SandboxDirectory } from '../sandbox/sandbox.ts'
import { AwakeLinks } from '../supervisor/awake-links.ts'
import { createSupervisorLink } from '../supervisor/supervisor-link.ts'
import { LiveSandbox } from './live/live-sandbox.ts'
import type { Order, SuspendOrder } from './live/orders.ts'
import { createPlanner, type PlannerOptions } from './provision/planner.ts'
import { createPool, type Pool } from './provision/pool.ts'
import { createPrewarmedSandboxes } from './provision/prewarmed.ts'
import { profileHash } from './provision/profile-hash.ts'
import { createProvision, type ProvisionOptions, workspaceDirectory } from './provision/provision.ts'
import { reportOf } from './reports.ts'
import { createSessionSandboxes } from './session-sandboxes.ts'
import { createWorkspaces, type Workspaces } from './workspaces.ts'

export type ManagerOptions = PlannerOptions &
  Pick<ProvisionOptions, 'layout' | 'supervisorPath' | 'defaultImage' | 'capacity'> & {
    /** How many sandboxes the pool starts at once. */
    poolConcurrency: number
    journal: Pick<Journal, 'write'>
    /** What all sandboxes have in common on their way out. */
    egress?: EgressSettings
    /** How a session has ended, as far as the broker has said. */
    sessionEnd: (sessionId: string) => EndReason | undefined
  }

/** More than this many are looked up in one listing of the engine. */
const ASKED_ONE_BY_ONE = 16
/** How long a supervisor may take to tell of processes; what is known without it is told then. */
const SUPERVISOR_MS = 2000

/** Holds every sandbox of this agent: makes, finds, suspends, wakes and ends them. */
export interface SandboxManager extends SandboxDirectory {
  get(id: string): LiveSandbox | undefined
  readonly pool: Pool
  readonly workspaces: Workspaces
  readonly inventory: Inventory
  readonly recovery: AwaitedSandboxes
  /** The session's sandbox, made if there is none yet; the same one for any number of callers. */
  ensureForSession(sessionId: string, request: CreateSandboxRequest): Promise<SandboxRecord>
  suspend(id: string, mode: 'freeze' | 'stop', order?: SuspendOrder): Promise<OrderResponse>
  resume(id: string, order?: Order): Promise<OrderResponse>
  /** Says where programs of a sandbox may connect to. Gives the revision of the order that holds then. UNSUPPORTED without a proxy. */
  setEgress(id: string, policy: EgressPolicy | null, revision: number): Promise<number>
  /** Leaves nothing: container, processes, socket, directories, uid. One that is gone already is fine. */
  destroy(id: string, reason: EndReason, options?: { keepWorkspace?: boolean }): Promise<void>
  /** Takes no more work, and leaves the sandboxes alone. `destroyAll`: ends every one of them, and says which have ended. */
  close(options?: { destroyAll?: boolean }): Promise<SandboxReport[]>
}

/** The sandboxes that are there now. */
export interface Inventory {
  /** How many, in the pool too. */
  readonly count: number
  /** How many are sessions', and what their profiles ask for, stopped ones left out; memory in bytes. */
  demand(): { sessions: number; memoryBytes: number; processors: number }
  /** All of sessions that run now. */
  running(): LiveSandbox[]
  /** All sandboxes, or those that `among` picks. */
  reports(among?: (sandbox: LiveSandbox) => boolean): SandboxReport[]
  /** Throws BINDING_NOT_FOUND. */
  report(id: string): SandboxReport
  /** The managed processes of a sandbox, whatever its state; it is not woken, and not used by it. Throws BINDING_NOT_FOUND. */
  processes(id: string): Promise<ManagedProcess[]>
  /** Asks the engine about every sandbox whose supervisor is not linked: the link ends with PID 1, so a linked one is there. */
  verifyAll(): Promise<void>
  /** Hears of each sandbox that is lost. */
  onLost(listener: (report: SandboxReport) => void): () => void
}

/** Sandboxes of an earlier run of the agent, between the reading of their records and their adoption. */
export interface AwaitedSandboxes {
  /** Takes note of them, before anything is made; each waits for its `adopt`. */
  expect(files: readonly SandboxFile[]): void
  /** Whether reports and `get` leave out sandboxes that are still to be adopted; until then nothing is made or said to be gone. */
  readonly isUnderWay: boolean
  /** Names of the providers of those that belong to sessions. */
  providers(): ReadonlySet<string>
  adopt(file: SandboxFile, handle: SandboxHandle | undefined): Promise<LiveSandbox>
}

export const createSandboxManager = (options: ManagerOptions): SandboxManager => {
  const { layout, uids, log } = options
  const sandboxes = new Map<string, LiveSandbox>()
  const awaited = new Map<string, SandboxFile>()
  const byWorkspace = createWorkspaceIndex()
  const ending = new Map<string, { file: SandboxFile; ending: { kept: boolean; ended: Promise<void> } }>()
  const lostListeners = new Set<(report: SandboxReport) => void>()
  const closing = new AbortController()
  const awake = new AwakeLinks(descriptorLimit())

  const onLost = (sandbox: LiveSandbox): void => {
    log.warn({ sandbox_id: sandbox.id, session_id: sandbox.file.session_id, reason: sandbox.lost?.reason }, 'sandbox lost')
    if (sandbox.file.session_id === null) {
      pool.forget(sandbox)
      void destroy(sandbox.id, 'failed').catch((err: unknown) =>
        log.error({ err, sandbox_id: sandbox.id }, 'a lost sandbox of the pool could not be removed'),
      )
      return
    }
    for (const listener of lostListeners) listener(reportOf(sandbox))
  }

  const live = (file: SandboxFile, provider: Provider, server?: Server): LiveSandbox => {
    const { root, socketPath, link: linkDirectory } = layout.directoriesOf(file.sandbox_id)
    let listening = server
    const sandbox = new LiveSandbox({
      file,
      directory: root,
      workspacePath: provider.host.workspacePath(workspaceDirectory(layout, file)),
      workspaceDirectory: workspaceDirectory(layout, file),
      provider,
      listen(secretHash, onSecret) {
        const { supervisorPath } = options
        const of = { server: listening, socketPath, supervisorPath, onSecret, awake, log: log.child({ sandbox_id: file.sandbox_id }) }
        // Of its first supervisor alone.
        listening = undefined
        return createSupervisorLink({ ...of, ...(secretHash === null ? {} : { secretHash }) })
      },
      onLost,
      linkDirectory,
      egress: options.egress ?? {},
      journal: options.journal,
      log,
    })
    sandboxes.set(file.sandbox_id, sandbox)
    byWorkspace.add(file)
    sessions.add(sandbox)
    return sandbox
  }

  const destroy = (id: string, reason: EndCause, { keepWorkspace = false }: { keepWorkspace?: boolean } = {}): Promise<void> => {
    if (awaited.has(id)) return Promise.reject(recoveringError())
    const sandbox = sandboxes.get(id)
    if (sandbox === undefined) return ending.get(id)?.ending.ended ?? Promise.resolve()
    sandboxes.delete(id)
    pool.forget(sandbox)
    sessions.delete(sandbox)
    const ended = endAndRemove(sandbox, reason, keepWorkspace).finally(() => ending.delete(id))
    ending.set(id, { file: sandbox.file, ending: { kept: keepWorkspace, ended } })
    return ended
  }

  const endAndRemove = async (sandbox: LiveSandbox, reason: EndCause, keepWorkspace: boolean): Promise<void> => {
    try {
      await sandbox.end(reason)
      // Before the record goes: what a crash interrupts here, the next start does again.
      await workspaces.leave(sandbox.file, keepWorkspace)
    } catch (error) {
      // Still there, and still ours to remove: the next try or the next start finds it.
      sandboxes.set(sandbox.id, sandbox)
      throw error
    }
    await layout.removeSandbox(sandbox.id)
    byWorkspace.delete(sandbox.file)
  }

  const planner = createPlanner(options)

  const prewarmed = createPrewarmedSandboxes(options)

  const provision = createProvision({ ...options, planner, prewarmed, live, destroy, closing: closing.signal })

  const workspaces = createWorkspaces({
    layout,
    uids,
    directoryOf: (id) => workspaceDirectory(layout, known(id).file),
    users: (name) =>
      byWorkspace.get(name).flatMap((id) => {
        const file = sandboxes.get(id)?.file ?? awaited.get(id)
        return file === undefined ? (ending.get(id) ?? []) : { file, ending: null }
      }),
    destroy,
  })

  const known = (id: string): LiveSandbox => {
    if (awaited.has(id)) throw recoveringError()
    const sandbox = sandboxes.get(id)
    if (sandbox === undefined) throw new BoxofficeError('BINDING_NOT_FOUND', `no sandbox ${id} on this agent`)
    return sandbox
  }

  const pool = createPool({
    create: (profile) =>
      provision({ profile, sessionId: null, workspace: null, keptAs: null, mounts: profileMounts(profile), previous: null }),
    destroy: (sandbox) => destroy(sandbox.id, 'idle'),
    hashOf: (profile) => profileHash(profile, options.defaultImage),
    concurrency: options.poolConcurrency,
    log,
  })

  const sessions = createSessionSandboxes({
    ...options,
    planner,
    pool,
    workspaces,
    provision,
    destroy,
    isRecovering: () => awaited.size > 0,
    onAssigned: ({ file }) => byWorkspace.add(file),
  })

  /** Nothing more begins, and what is under way has come to its end. */
  const settle = async (): Promise<void> => {
    closing.abort(new BoxofficeError('BACKEND_UNAVAILABLE', 'the agent is stopping'))
    await pool.close()
    await prewarmed.close()
    await Promise.allSettled([sessions.settled(), ...[...ending.values()].map(({ ending: { ended } }) => ended)])
  }

  /** Ends every sandbox, after what is being made: an end in the middle of a start would find nothing, and the engine would go on. */
  const destroyAll = async (): Promise<SandboxReport[]> => {
    const ended: SandboxReport[] = []
    const end = async (sandbox: LiveSandbox): Promise<void> => {
      const report = reportOf(sandbox)
      await destroy(sandbox.id, AGENT_STOPPED)
      ended.push({ ...report, state: 'lost', reason: AGENT_STOPPED, gone: true })
    }
    for (const result of await Promise.allSettled([...sandboxes.values()].map(end)))
      if (result.status === 'rejected') log.error({ err: result.reason }, 'a sandbox could not be removed')
    return ended
  }

  const inventory: Inventory = {
    get count() {
      return sandboxes.size
    },
    demand() {
      const demand = { sessions: 0, memoryBytes: 0, processors: 0 }
      for (const { file, state } of sandboxes.values()) {
        if (file.session_id !== null) demand.sessions++
        if (state === 'stopped' || state === 'lost') continue
        demand.memoryBytes += file.profile.memory_mb * 1024 ** 2
        demand.processors += file.profile.cpus
      }
      return demand
    },
    running: () => [...sandboxes.values()].filter(({ state, file }) => state === 'running' && file.session_id !== null),
    reports: (among = () => true) => [...sandboxes.values()].filter(among).map(reportOf),
    report: (id) => reportOf(known(id)),
    async processes(id) {
      const { processes, state, linked } = known(id)
      const asleep = processes.list({ asleep: true })
      // One that is frozen meanwhile does not answer.
      return state === 'running' && linked ? withTimeout(processes.list(), SUPERVISOR_MS, () => asleep) : asleep
    },
    async verifyAll() {
      const unlinked = [...sandboxes.values()].filter(({ linked, state }) => !linked && state !== 'stopped' && state !== 'lost')
      const alive = new Set<string>()
      // One listing costs less than many questions, but it walks over the linked ones too.
      if (unlinked.length > ASKED_ONE_BY_ONE)
        for await (const { id, state } of options.provider().sandboxes.list()) if (state !== 'stopped' && state !== 'lost') alive.add(id)
      await Promise.all(unlinked.filter(({ id }) => !alive.has(id)).map((sandbox) => sandbox.verify()))
    },
    onLost(listener) {
      lostListeners.add(listener)
      return () => lostListeners.delete(listener)
    },
  }

  const recovery: AwaitedSandboxes = {
    expect(files) {
      for (const file of files) {
        awaited.set(file.sandbox_id, file)
        byWorkspace.add(file)
      }
    },
    get isUnderWay() {
      return awaited.size > 0
    },
    providers() {
      const named = [...awaited.values()].filter(({ session_id: sessionId }) => sessionId !== null)
      return new Set(named.flatMap(({ provider }) => provider ?? []))
    },
    async adopt(file, handle) {
      const sandbox = live(file, options.provider())
      awaited.delete(file.sandbox_id)
      await sandbox.adopt(handle, profileHash(file.profile, options.defaultImage, file.host_workspace) === file.profile_hash)
      if (file.session_id === null && sandbox.lost === undefined) pool.adopt(sandbox)
      return sandbox
    },
  }

  return {
    pool,
    workspaces,
    inventory,
    recovery,
    get(id) {
      const sandbox = sandboxes.get(id)
      return sandbox === undefined || sandbox.file.session_id === null ? undefined : sandbox
    },
    isAwaited: (id) => awaited.has(id),
    ensureForSession: sessions.ensure,
    async suspend(id, mode, order) {
      const sandbox = known(id)
      await sandbox.suspend(mode, order)
      return { ...reportOf(known(id)), ...sandbox.orders.overtaken(order) }
    },
    async resume(id, order) {
      const sandbox = known(id)
      if (sandbox.orders.isInForce(order)) await sandbox.ready(closing.signal)
      return { ...reportOf(known(id)), ...sandbox.orders.overtaken(order) }
    },
    setEgress: async (id, policy, revision) => known(id).setEgress(policy, revision),
    destroy,
    async close(end = {}) {
      await settle()
      const ended = end.destroyAll ? await destroyAll() : []
      await Promise.all([...sandboxes.values()].map((sandbox) => sandbox.release()))
      return ended
    },
  }
}
