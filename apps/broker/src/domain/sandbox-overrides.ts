import { BoxofficeError, describeIssues, type MountSet, Profile } from '@boxoffice/protocol'
import { z } from 'zod'

/** What a caller wants different from its profile. */
export type SandboxOverrides = {
  profile?: Partial<z.input<typeof Profile>>
  /** Beside those of the profile. */
  mounts?: MountSet['mounts']
  workspaceHostPath?: string | null
  /** Default: the profile's `host_path_mode`. */
  workspaceMode?: MountSet['workspace_mode']
}

/** Never a caller's: what the profile is, and what it holds callers to. */
const FIXED: ReadonlySet<string> = new Set(['name', 'locked', 'max_timeout_sec', 'capabilities', 'public_ports'])

const Seconds = z.coerce.number().positive()

/**
 * The profile as it holds for one caller [2-06]: its values, the profile's where it has none, locked ones forced [2-07], the timeout
 * clamped [2-09], all of it checked. `globalImage` beats the profile's image, not the caller's.
 */
export function effectiveProfile(
  profile: Profile,
  overrides: SandboxOverrides['profile'] = {},
  globalImage: string | null = null,
): Profile {
  const held = new Set([...FIXED, ...profile.locked])
  const wanted = Object.entries(overrides).filter(([name, value]) => value !== undefined && !held.has(name))
  if (wanted.length === 0 && globalImage === null && profile.timeout_sec <= profile.max_timeout_sec) return profile
  const image = held.has('image') ? profile.image : (globalImage ?? profile.image)
  const merged: Record<string, unknown> = { ...profile, image, ...Object.fromEntries(wanted) }
  // Read before it is clamped: a text as well as a number.
  const timeout = Seconds.safeParse(merged.timeout_sec)
  if (timeout.success) merged.timeout_sec = Math.min(timeout.data, profile.max_timeout_sec)
  const parsed = Profile.safeParse(merged)
  if (parsed.success) return parsed.data
  throw new BoxofficeError('INVALID_REQUEST', describeIssues(parsed.error), {
    details: { field: parsed.error.issues[0]?.path.join('.') ?? null },
  })
}

/** What of the host a caller's sandbox sees; a locked mode is the profile's, locked mounts are the profile's alone. */
export function effectiveMounts(profile: Profile, { mounts = [], workspaceHostPath = null, workspaceMode }: SandboxOverrides): MountSet {
  const locked = new Set(profile.locked)
  return {
    workspace_host_path: workspaceHostPath,
    workspace_mode: locked.has('host_path_mode') ? profile.host_path_mode : (workspaceMode ?? profile.host_path_mode),
    mounts: locked.has('mounts') ? profile.mounts : [...profile.mounts, ...mounts],
  }
}
