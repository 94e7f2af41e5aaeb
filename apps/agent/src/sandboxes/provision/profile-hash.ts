import { createHash } from 'node:crypto'
import type { Profile } from '@boxoffice/protocol'

/** The image that a profile gets: its own or the agent's default. */
export const imageOf = (profile: Profile, defaultImage: string): string => profile.image ?? defaultImage

/**
 * Sixteen hex digits over what cannot be changed on a running sandbox [2-31]. Two profiles that differ only in timeouts or
 * in their name share a hash, and so a warm pool.
 */
export const profileHash = (profile: Profile, defaultImage: string, hostPath: string | null = null): string =>
  createHash('sha256')
    .update(
      JSON.stringify([
        ['image', imageOf(profile, defaultImage)],
        ['network', profile.network],
        ['host_path', hostPath],
        ['host_path_mode', profile.host_path_mode],
        ['cpus', profile.cpus],
        ['memory_mb', profile.memory_mb],
        ['pids_limit', profile.pids_limit],
        ['read_only_rootfs', profile.read_only_rootfs],
        ['oci_runtime', profile.oci_runtime],
        ...(profile.user === null ? [] : [['user', profile.user]]),
        ...(profile.app_alias ? [] : [['app_alias', false]]),
        ...(profile.mounts.length === 0 ? [] : [['mounts', profile.mounts]]),
      ]),
    )
    .digest('hex')
    .slice(0, 16)
