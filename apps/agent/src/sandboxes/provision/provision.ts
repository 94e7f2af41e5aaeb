import type { Server } from 'node:net'
import { BoxofficeError, MountSet, newSandboxId, type Profile } from '@boxoffice/protocol'
import type { Logger } from 'pino'
import type { Capacity } from '../../capacity/capacity.ts'
import type { Layout, Owner } from '../../data-dir/layout.ts'
import type { SandboxFile } from '../../data-dir/record-file.ts'
import type { Uids } from '../../data-dir/uids.ts'
import { prepareMounts } from '../../mounts/plan.ts'
import type { EndReason } from '../../sandbox/end.ts'
import type { Provider } from '../../sandbox/provider.ts'
import { supervisorArguments } from '../../sandbox/supervisor-arguments.ts'
import type { LiveSandbox } from '../live/live-sandbox.ts'
import { assertPossible, type Planner } from './planner.ts'
import type { PrewarmedSandboxes } from './prewarmed.ts'
import { imageOf, profileHash } from './profile-hash.ts'

/** `workspace`: the scope's, to mount; `keptAs`: its name, for a workspace of the sandbox's own. */
export type Plan = {
  profile: Profile
  sessionId: string | null
  workspace: string | null
  keptAs: string | null
  mounts: MountSet
  labels?: Readonly<Record<string, string>>
  /** The earlier making of the sandbox, which has ended, and as whom the next one runs. */
  previous: { file: SandboxFile; owner: Owner } | null
}

export type ProvisionOptions = {
  provider: () => Provider
  planner: Planner
  capacity: Capacity
  prewarmed: PrewarmedSandboxes
  layout: Layout
  uids: Uids
  /** On the host; below the data directory, so that running sandboxes keep theirs over an upgrade. */
  supervisorPath: string
  defaultImage: string
  /** Takes it among those of this agent. With a server for its link, if one listens already. */
  live(file: SandboxFile, provider: Provider, server?: Server): LiveSandbox
  destroy(id: string, reason: EndReason): Promise<void>
  /** Nothing more begins. */
  closing: AbortSignal
  log: Logger
}

/** Where the workspace of a sandbox is on the host. */
export const workspaceDirectory = (layout: Layout, file: SandboxFile): string => file.host_workspace ?? layout.workspaceOf(file.workspace)

/** What makes a sandbox whose supervisor is linked, or leaves nothing behind. */
export const createProvision = (options: ProvisionOptions): ((plan: Plan) => Promise<LiveSandbox>) => {
  const { planner, layout, uids, defaultImage, closing, log } = options
  return async ({ profile: asked, sessionId, workspace, keptAs, mounts, labels = {}, previous }) => {
    const provider = options.provider()
    const image = imageOf(asked, defaultImage)
    const profile = { ...asked, image }
    assertPossible(provider, profile)
    const plan = await planner.mounts(mounts, profile)
    // A sandbox that is made anew takes the room of its earlier making.
    using admitted = previous === null ? options.capacity.admit() : null
    const hosted = plan.workspace !== null
    // What is prewarmed has a workspace and a user of its own, nothing of the host, and a supervisor whose arguments are settled.
    const isOwn = previous === null && workspace === null && !hosted && plan.mounts.length === 0 && asked.user === null
    const plain = isOwn && supervisorArguments(profile).length === 0
    const prewarmed = plain ? options.prewarmed.take() : undefined
    const id = previous?.file.sandbox_id ?? prewarmed?.id ?? newSandboxId()
    const managed = workspace ?? id
    const existing = hosted || workspace === null ? undefined : await layout.ownerOf(managed)
    const { uid, gid } = previous?.owner ?? prewarmed?.owner ?? (await planner.owner(plan, asked, existing))
    uids.claim(uid)
    const file: SandboxFile = {
      sandbox_id: id,
      session_id: sessionId,
      generation: (previous?.file.generation ?? 0) + 1,
      profile: asked,
      profile_hash: profileHash(asked, defaultImage, plan.workspace?.source),
      image,
      workspace: managed,
      kept_as: keptAs,
      mounts: MountSet.parse(mounts),
      host_workspace: plan.workspace?.source ?? null,
      uid,
      gid,
      secret_hash: null,
      provider: provider.name,
      egress_revision: 0,
      stopped: false,
    }
    const directories = prewarmed?.directories ?? (await layout.makeDirectories(id, gid))
    if (prewarmed === undefined && existing === undefined && !hosted) await layout.makeWorkspace(file.workspace, { uid, gid })
    const sandbox = options.live(file, provider, prewarmed?.server)
    admitted?.recorded()
    const signal = AbortSignal.any([closing, AbortSignal.timeout(asked.provision_timeout_seconds * 1000)])
    try {
      await sandbox.prepare()
      await prepareMounts(plan, workspaceDirectory(layout, file), { uid, gid })
      const spec = {
        profile,
        profileHash: file.profile_hash,
        linkDirectory: directories.link,
        supervisorPath: options.supervisorPath,
        workspaceDirectory: workspaceDirectory(layout, file),
        workspaceReadOnly: plan.workspace?.readOnly ?? false,
        mounts: plan.mounts,
        labels,
        pooled: sessionId === null,
        uid,
        gid,
      }
      await sandbox.launch((within) => provider.sandboxes.create(id, spec, within), signal)
      return sandbox
    } catch (error) {
      provider.prewarm?.discard(id)
      await options
        .destroy(id, 'failed')
        .catch((err: unknown) => log.error({ err, sandbox_id: id }, 'a sandbox that failed to start could not be removed'))
      throw error instanceof BoxofficeError
        ? error
        : new BoxofficeError('BACKEND_UNAVAILABLE', startFailure(error, signal), { cause: error })
    } finally {
      options.prewarmed.refill()
    }
  }
}

const startFailure = (error: unknown, signal: AbortSignal): string => {
  if (signal.aborted) return 'the sandbox did not start in time (provision_timeout_seconds)'
  return `the sandbox could not be started: ${error instanceof Error ? error.message : 'unknown reason'}`
}
