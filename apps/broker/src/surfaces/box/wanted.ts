import { BoxofficeError, type MountSet, type Profile } from '@boxoffice/protocol'
import type { BoxSettings, Pipeline } from '../../config/box.ts'
import { effectiveMounts, effectiveProfile, type SandboxOverrides } from '../../domain/sandbox-overrides.ts'
import type { Session } from '../../domain/session.ts'
import { type BoxSpec, DEFAULT_MOUNT_PATH } from './spec.ts'

/** What a request makes of the profile, and what of the host its sandbox sees. */
export type Wanted = { overrides: SandboxOverrides; profile: Profile; mounts: MountSet }

/** Long enough to never come first: the hard end of every session does. */
const NEVER_SECONDS = 10 * 365 * 24 * 3600

/**
 * What a request asks for [2-06]. A live session keeps what the request does not name; without one, all bound skills are mounted at
 * the creation, whichever is used first [0-30].
 */
export function wantedOf(spec: BoxSpec, profile: Profile, settings: BoxSettings, pipeline: Pipeline | null, live?: Session): Wanted {
  const { cpus, memory_mb, pids_limit, read_only_rootfs, network, host_path_mode, persistent, workspace_quota_mb } = spec
  const ttl = settings.sessionTtlSec > 0 && persistent !== true ? settings.sessionTtlSec : NEVER_SECONDS
  const named = {
    cpus,
    memory_mb,
    pids_limit,
    read_only_rootfs,
    network,
    host_path_mode,
    persistent,
    workspace_quota_mb,
    image: spec.image ?? settings.image ?? undefined,
  }
  // A Box session that nobody uses ends, it is not put to sleep: after the lease, which comes first [2-21].
  const times = { lease_seconds: ttl, idle_timeout_seconds: NEVER_SECONDS, on_lease_expiry: 'terminate' as const }
  const overrides: SandboxOverrides = { profile: { ...defined(named), ...times }, ...mountsOf(spec, pipeline, live) }
  const effective = effectiveProfile(profile, overrides.profile)
  return { overrides, profile: effective, mounts: effectiveMounts(effective, overrides) }
}

/** The seconds of one command: the request's or the profile's, at most what the profile allows [2-09]. */
export const timeoutOf = ({ timeout_sec }: BoxSpec, profile: Profile): number =>
  effectiveProfile(profile, defined({ timeout_sec })).timeout_sec

function mountsOf(spec: BoxSpec, pipeline: Pipeline | null, live: Session | undefined): Partial<SandboxOverrides> {
  const { host_path, host_path_mode, mount_path = DEFAULT_MOUNT_PATH, extra_mounts } = spec
  const skills = (pipeline?.skills ?? []).map(({ name, package_root }) => ({
    host_path: package_root,
    mount_path: `/workspace/.skills/${name}`,
    mode: 'rw' as const,
    skip_roots: true,
    optional: true,
  }))
  const extra = (extra_mounts ?? []).map((mount) => ({ ...mount, skip_roots: false, optional: false }))
  const elsewhere =
    host_path === undefined || mount_path === DEFAULT_MOUNT_PATH
      ? []
      : [{ host_path, mount_path, mode: host_path_mode ?? ('rw' as const), skip_roots: false, optional: false }]
  const mounts = [...elsewhere, ...extra, ...skills]
  const workspaceHostPath = elsewhere.length > 0 ? undefined : host_path
  const nothing = extra_mounts === undefined && pipeline === null && host_path === undefined
  // Those of a live session stay: to name none is not to want none.
  if (live !== undefined && nothing) return {}
  return {
    mounts,
    workspaceHostPath: workspaceHostPath ?? live?.mounts.workspace_host_path ?? null,
    ...(host_path_mode === undefined
      ? live === undefined
        ? {}
        : { workspaceMode: live.mounts.workspace_mode }
      : { workspaceMode: host_path_mode }),
  }
}

/** The order of the seed: the first that differs is named [2-23]. */
const COMPARED = [
  'network',
  'image',
  'host_path_mode',
  'cpus',
  'memory_mb',
  'pids_limit',
  'read_only_rootfs',
  'persistent',
  'workspace_quota_mb',
] as const

/** 409 where the live session has something else than the request names; a locked field cannot differ [2-23]. */
export function requireCompatible(id: string, spec: BoxSpec, live: Session, wanted: Wanted): void {
  for (const field of COMPARED)
    if (spec[field] !== undefined && wanted.profile[field] !== live.profile[field]) throw conflict(id, field, live.profile[field])
  if (spec.host_path === undefined) return
  const mountPath = spec.mount_path ?? DEFAULT_MOUNT_PATH
  const known = hostPathOf(live.mounts, mountPath)
  if (known === spec.host_path) return
  if (mountPath === DEFAULT_MOUNT_PATH || known !== null) throw conflict(id, 'host_path', known)
  throw conflict(id, 'mount_path', DEFAULT_MOUNT_PATH)
}

/** What of the host is seen at a path. */
const hostPathOf = ({ workspace_host_path, mounts }: MountSet, mountPath: string): string | null =>
  mountPath === DEFAULT_MOUNT_PATH ? workspace_host_path : (mounts.find((mount) => mount.mount_path === mountPath)?.host_path ?? null)

const conflict = (id: string, field: string, has: unknown): BoxofficeError =>
  new BoxofficeError('BINDING_CONFLICT', `Box session ${id} already exists with ${field}=${has}; delete it first, or leave ${field} out`, {
    details: { field },
  })

const defined = <T extends object>(fields: T): { [K in keyof T]: Exclude<T[K], undefined> } =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as { [K in keyof T]: Exclude<T[K], undefined> }
