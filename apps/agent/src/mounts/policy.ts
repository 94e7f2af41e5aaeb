import { realpath, stat } from 'node:fs/promises'
import { posix } from 'node:path'
import { BoxofficeError } from '@boxoffice/protocol'

/** Directories of the host that no sandbox sees, with all that is below them [2-110]. */
const BLOCKED = [
  ...['/etc', '/proc', '/sys', '/dev', '/root', '/boot', '/run', '/var/run'],
  ...['/run/docker.sock', '/var/run/docker.sock', '/run/podman', '/var/run/podman'],
]

export type MountPolicyOptions = {
  /** Where mounting is allowed; empty: nowhere [2-113]. */
  allowedRoots: readonly string[]
  /** Beside those that always are: data directories, sockets of engines. */
  blocked: readonly string[]
}

/** Which directories of this host may be shown to sandboxes. Asked before any engine is [2-112]. */
export interface MountPolicy {
  /**
   * The directory itself, all links resolved. Throws INVALID_REQUEST with the literal messages of contract 4.4; undefined when it is
   * not there and `optional`.
   */
  resolve(path: string, options: { field: string; skipRoots: boolean; optional: boolean }): Promise<string | undefined>
}

export const createMountPolicy = async (options: MountPolicyOptions): Promise<MountPolicy> => {
  const blocked = await withTargets([...BLOCKED, ...options.blocked])
  const roots = await withTargets(options.allowedRoots)

  const refuseBlocked = (path: string, field: string): void => {
    const reason = blocked.find((one) => isWithin(path, one)) ?? blocked.find((one) => isWithin(one, path))
    if (reason === undefined) return
    const why = isWithin(path, reason) ? `${reason} is never mounted` : `it holds ${reason}, which is never mounted`
    throw refusal(field, `host_path is blocked: ${why}`)
  }
  const refuseOutside = (path: string, field: string): void => {
    if (!roots.some((root) => isWithin(path, root)))
      throw refusal(field, `host_path is outside allowed_mount_roots: ${options.allowedRoots.join(', ')}`)
  }

  return {
    async resolve(path, { field, skipRoots, optional }) {
      const plain = clean(path)
      refuseBlocked(plain, field)
      if (!skipRoots && roots.length === 0)
        throw refusal(field, 'host_path mounting is disabled because no allowed_mount_roots are configured')
      // Before anything is looked at: whether something exists outside of the roots is nobody's to learn.
      if (!skipRoots) refuseOutside(plain, field)
      const target = await directoryAt(path)
      if (target === undefined) {
        if (optional) return undefined
        throw refusal(field, 'host_path must point to an existing directory on the host')
      }
      refuseBlocked(target, field)
      if (!skipRoots) refuseOutside(target, field)
      return target
    },
  }
}

const refusal = (field: string, message: string): BoxofficeError =>
  new BoxofficeError('INVALID_REQUEST', `${field}: ${message}`, { details: { field } })

/** Whether it is that directory or below it; by whole segments [2-114]. */
const isWithin = (path: string, directory: string): boolean =>
  path === directory || path.startsWith(directory === '/' ? '/' : `${directory}/`)

const clean = (path: string): string =>
  posix
    .normalize(path)
    .replace(/^\/\/+/, '/')
    .replace(/(?<=.)\/+$/, '')

const directoryAt = async (path: string): Promise<string | undefined> => {
  try {
    const target = await realpath(path)
    return (await stat(target)).isDirectory() ? target : undefined
  } catch {
    return undefined
  }
}

/** Each as it is written and where it leads: `/var/run` is `/run` on most hosts. */
const withTargets = async (paths: readonly string[]): Promise<string[]> => {
  const targets = await Promise.all(paths.map((path) => realpath(path).catch(() => path)))
  return [...new Set([...paths, ...targets].map(clean))]
}
