import { accessSync, constants, existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { BoxofficeError } from '@boxoffice/protocol'
import { mountedControllers } from '../../host/cgroup-mounts.ts'
import { freezeGroup, isGroupFrozen, thawGroup } from '../../host/freezer.ts'

/** Freezes pods of this node by the control groups that its kubelet makes; the API has no way to. Pods are named by their uids. */
export interface PodGroups {
  /** Throws BACKEND_UNAVAILABLE where the kernel has no group of the pod. */
  freeze(uid: string): Promise<void>
  /** One that is not frozen, or not there, is fine. */
  thaw(uid: string): Promise<void>
  /** As the kernel says. */
  isFrozen(uid: string): boolean
  forget(uid: string): void
}

/** A kubelet can have a root of its own, as `/kubelet` or that of a node in a container. */
const DEPTH = 3

/** Undefined where this process sees no groups of a kubelet, or may not write them: sandboxes can be stopped then, and not frozen. */
export const openPodGroups = (): PodGroups | undefined => {
  const freezer = mountedControllers().get('freezer')
  if (freezer === undefined) return undefined
  const { version, mount } = freezer
  const roots = kubeletRoots(mount, DEPTH).filter(isWritable)
  if (roots.length === 0) return undefined
  const known = new Map<string, string>()

  const groupOf = (uid: string): string | undefined => {
    const before = known.get(uid)
    if (before !== undefined && existsSync(before)) return before
    const found = roots.flatMap((root) => groupNames(uid).map((name) => join(root, name))).find(existsSync)
    if (found !== undefined) known.set(uid, found)
    return found
  }

  return {
    async freeze(uid) {
      const group = groupOf(uid)
      if (group === undefined)
        throw new BoxofficeError('BACKEND_UNAVAILABLE', 'the control group of the sandbox was not found on this node')
      await freezeGroup(group, version)
    },
    async thaw(uid) {
      const group = groupOf(uid)
      if (group === undefined) return
      await thawGroup(group, version).catch((error: NodeJS.ErrnoException) => {
        // It went between the look and the write.
        if (error.code !== 'ENOENT' && error.code !== 'ENODEV') throw error
      })
    },
    isFrozen(uid) {
      const group = groupOf(uid)
      return group !== undefined && isGroupFrozen(group, version)
    },
    forget: (uid) => void known.delete(uid),
  }
}

/** Where a kubelet puts a pod below its root, with its own driver and with systemd's. */
const groupNames = (uid: string): string[] => {
  const escaped = uid.replaceAll('-', '_')
  return [
    ...['burstable/', '', 'besteffort/'].map((quality) => `${quality}pod${uid}`),
    `kubepods-burstable.slice/kubepods-burstable-pod${escaped}.slice`,
    `kubepods-pod${escaped}.slice`,
    `kubepods-besteffort.slice/kubepods-besteffort-pod${escaped}.slice`,
  ]
}

const kubeletRoots = (directory: string, depth: number): string[] =>
  directoriesIn(directory).flatMap((name) => {
    const path = join(directory, name)
    if (name === 'kubepods' || name === 'kubepods.slice') return [path]
    return depth > 1 ? kubeletRoots(path, depth - 1) : []
  })

const directoriesIn = (path: string): string[] => {
  try {
    return readdirSync(path, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? [entry.name] : []))
  } catch {
    // A group can go while they are walked over.
    return []
  }
}

const isWritable = (path: string): boolean => {
  try {
    accessSync(path, constants.W_OK)
    return true
  } catch {
    return false
  }
}
