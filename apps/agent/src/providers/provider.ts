import type { Profile } from '@boxoffice/protocol'

/** What a provider can do and enforce; what it cannot is reported here, never silently ignored. */
export type ProviderCapabilities = {
  /** `container`, `bubblewrap` or `none`. */
  isolation: 'container' | 'bubblewrap' | 'none'
  suspend: readonly ('freeze' | 'stop')[]
  /** Which limits of a profile are enforced. */
  limits: readonly ('cpus' | 'memory_mb' | 'pids_limit' | 'read_only_rootfs')[]
  /** Whether `network: "on"` can be granted. */
  network: boolean
  ociRuntimes: readonly string[]
}

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
  /** Becomes `/workspace` and `/app`. */
  workspaceDirectory: string
  /** Made ahead for the pool, which shows in its name. */
  pooled: boolean
  uid: number
  gid: number
}

export type SandboxId = string

/** One sandbox as the engine knows it. */
export type SandboxHandle = {
  id: SandboxId
  /** The engine's own name for it: container id, or the process id of bwrap. */
  engineId: string
  state: 'running' | 'frozen' | 'stopped' | 'lost'
  profileHash: string
  /** Out of memory as the engine saw it, for `lost` ones. */
  oomKilled?: boolean
}

/** Starts and stops sandboxes in which the supervisor runs as PID 1. Everything above it is written once (architecture, 3). */
export interface Provider {
  readonly name: 'docker' | 'local'
  readonly capabilities: ProviderCapabilities
  /** Where processes of a sandbox find the workspace that is this directory on the host. */
  workspacePath(workspaceDirectory: string): string
  /** Available? If not, why not and what to do. Cheap enough to call every few seconds. */
  probe(): Promise<ProviderStatus>
  /** Starts one. Returns when the engine has started it (its supervisor dials in by itself). Leaves nothing behind when it fails. */
  create(id: SandboxId, spec: SandboxSpec, signal: AbortSignal): Promise<SandboxHandle>
  /** Those of this install that exist now, in whatever state; the basis of recovery. */
  list(): AsyncIterable<SandboxHandle>
  /** One, as it is now; undefined when it is gone. */
  inspect(handle: SandboxHandle): Promise<SandboxHandle | undefined>
  suspend(handle: SandboxHandle, mode: 'freeze' | 'stop'): Promise<void>
  resume(handle: SandboxHandle): Promise<void>
  /** Idempotent: one that is already gone is fine. */
  destroy(handle: SandboxHandle): Promise<void>
  /** Lets go of what the provider itself holds; sandboxes stay. */
  close(): Promise<void>
}
