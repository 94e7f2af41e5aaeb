import type { BoxofficeError, Profile, ProviderAbilities } from '@boxoffice/protocol'

/** Limits of a profile. `workspace_disk`: how much of the host's disk a sandbox can fill; quotas only measure that [2-119]. */
const LIMITS = ['cpus', 'memory_mb', 'pids_limit', 'read_only_rootfs', 'tmp_size', 'workspace_disk'] as const
export type Limit = (typeof LIMITS)[number]

/** What a provider can do and enforce; what it cannot is reported here, never silently ignored. */
export type ProviderCapabilities = {
  /** `container`, `bubblewrap` or `none`. */
  isolation: 'container' | 'bubblewrap' | 'none'
  suspend: readonly ('freeze' | 'stop')[]
  /** Which limits of a profile are enforced. */
  limits: readonly Limit[]
  /** Whether `network: "on"` can be granted. */
  network: boolean
  /** Whether a sandbox has a loopback of its own, on which the proxy of `network: "proxy"` can listen. */
  egress: boolean
  /** Whether it can mount directories of the host beside the workspace, and a workspace read-only [0-28]. */
  extraMounts: boolean
  ociRuntimes: readonly string[]
  /** Whether a sandbox can have an image of its own. */
  images: boolean
}

/** A directory of the host, links resolved, and where it is in the sandbox. */
export type Bind = { source: string; target: string; readOnly: boolean }

export type ProviderStatus = { available: true } | { available: false; reason: string }

/** Everything that a provider needs to start one sandbox. Host paths; all exist and belong to `uid` where they must. */
export type SandboxSpec = {
  profile: Profile
  /** Sixteen hex digits over what cannot be changed on a running sandbox [2-31]. */
  profileHash: string
  /** Directory that holds `link.sock`; bind-mounted read-only at `/.boxoffice/link`. */
  linkDirectory: string
  /** The supervisor's binary; bind-mounted read-only at `/.boxoffice/supervisor`. */
  supervisorPath: string
  /** Becomes `/workspace`, and `/app` where the profile says so. */
  workspaceDirectory: string
  workspaceReadOnly: boolean
  /** Beside it, in order; those below `/workspace` are below `/app` as well. */
  mounts: readonly Bind[]
  /** Of the session; an engine that has labels shows those that are meant for it [2-28]. */
  labels?: Readonly<Record<string, string>>
  /** Made ahead for the pool, which shows in its name. */
  pooled: boolean
  uid: number
  gid: number
}

/** What is known of a sandbox before anybody asks for it; paths as they will be in its SandboxSpec. */
export type PrewarmSpec = Pick<SandboxSpec, 'linkDirectory' | 'supervisorPath' | 'uid' | 'gid'> & {
  /** What becomes the directory around the link's: all that is there until then. */
  directory: string
}

export type SandboxId = string

/** One sandbox as the engine knows it. */
export type SandboxHandle = {
  id: SandboxId
  /** The engine's own name for it: container id, or the process id of bwrap. */
  engineId: string
  /** `starting`: the engine has it and says that it does not run yet, which its supervisor may know better. */
  state: 'starting' | 'running' | 'frozen' | 'stopped' | 'lost'
  profileHash: string
  /** Out of memory as the engine saw it, for `lost` ones. */
  oomKilled?: boolean
  /** Why it is lost, as sessions show it, where the engine knows: `node_drained`. */
  lostReason?: string
  /** Of a lost one that never ran: what whoever waits for it is told. */
  startError?: BoxofficeError
}

/** The processes of a sandbox by their ids on this machine. */
export type Inside = {
  /** PID 1 of the sandbox. */
  supervisor: number
  others: number[]
  /** Where this machine has what it changed outside of its mounts, if that is known. */
  layer?: string | undefined
}

/** Starts and ends sandboxes in which the supervisor runs as PID 1, one call for one sandbox. */
export interface SandboxEngine {
  /**
   * Starts one. Returns when the engine has started it, or will (`starting`); its supervisor dials in by itself. Leaves nothing behind
   * when it fails.
   */
  create(id: SandboxId, spec: SandboxSpec, signal: AbortSignal): Promise<SandboxHandle>
  /** Those of this install that exist now, in whatever state; the basis of recovery. */
  list(): AsyncIterable<SandboxHandle>
  /** One, as it is now; undefined when it is gone. */
  inspect(handle: SandboxHandle): Promise<SandboxHandle | undefined>
  suspend(handle: SandboxHandle, mode: 'freeze' | 'stop'): Promise<void>
  resume(handle: SandboxHandle): Promise<void>
  /** Idempotent: one that is already gone is fine. */
  destroy(handle: SandboxHandle): Promise<void>
}

/** What of a `create` takes time and needs no profile, done before anybody asks for the sandbox. */
export interface Prewarm {
  make(id: SandboxId, spec: PrewarmSpec): Promise<void>
  /** Ends what `make` left, where no `create` has taken it. */
  discard(id: SandboxId): void
}

/** Sandboxes as this machine sees them. */
export interface HostView {
  /** Where processes of a sandbox find the workspace that is this directory on the host. */
  workspacePath(workspaceDirectory: string): string
  /** Where on this machine the engine keeps what sandboxes write outside of their workspaces. */
  readonly engineDirectory?: string | undefined
  /** What runs in it now; undefined where its processes are not to be seen from here, as those of an engine on another machine. */
  inside?(handle: SandboxHandle): Promise<Inside | undefined>
}

/** A backend for sandboxes. Everything above it is written once (architecture, 3). */
export interface Provider {
  /** As it is registered (candidates.ts), and as sessions and status show it. */
  readonly name: string
  readonly capabilities: ProviderCapabilities
  readonly sandboxes: SandboxEngine
  readonly host: HostView
  readonly prewarm?: Prewarm
  /** Available? If not, why not and what to do. Cheap enough to call every few seconds. */
  probe(): Promise<ProviderStatus>
  /** Lets go of what the provider itself holds; sandboxes stay. */
  close(): Promise<void>
}

/** Everything of the host that a sandbox sees beyond the product's own: the workspace first, the others in order [0-25, 0-27]. */
export const bindsOf = ({ workspaceDirectory: source, workspaceReadOnly: readOnly, mounts, profile }: SandboxSpec): Bind[] =>
  [{ source, target: '/workspace', readOnly }, ...mounts].flatMap((bind) => {
    const below = /^\/workspace(\/.*)?$/s.exec(bind.target)
    return below === null || !profile.app_alias ? [bind] : [bind, { ...bind, target: `/app${below[1] ?? ''}` }]
  })

/** The capabilities as agents report them. */
export const abilitiesOf = ({ limits, network, egress, extraMounts, ociRuntimes, images }: ProviderCapabilities): ProviderAbilities => ({
  limits: [...limits],
  not_enforced: LIMITS.filter((limit) => !limits.includes(limit)),
  network,
  egress,
  extra_mounts: extraMounts,
  oci_runtimes: [...ociRuntimes],
  images,
})

/** One way to get a provider: it is opened only when its turn comes. Callers are told `name`; `address` is for the log. */
export type Candidate = { name: string; address?: string; open: () => Promise<Provider> }
