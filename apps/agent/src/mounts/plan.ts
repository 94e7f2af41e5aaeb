import { BoxofficeError, type MountSet } from '@boxoffice/protocol'
import type { Logger } from 'pino'
import type { Owner } from '../data-dir/layout.ts'
import type { Bind } from '../sandbox/provider.ts'
import { guestPath } from './guest-path.ts'
import { makeMountPoint } from './mount-point.ts'
import { requireWritable } from './ownership.ts'
import type { MountPolicy } from './policy.ts'

/** A mount set as it is on this host: allowed, resolved, in one spelling. */
export type MountPlan = {
  /** Null: a workspace of the agent's making. */
  workspace: { source: string; readOnly: boolean } | null
  mounts: readonly (Bind & { field: string })[]
}

export type PlanOptions = {
  policy: MountPolicy
  /** The workspace of those who name none, and do not say `none`. */
  defaultHostWorkspace: string | undefined
  appAlias: boolean
  log: Logger
}

/** Checks all of it, and touches nothing [2-112]. */
export const planMounts = async (set: MountSet, { policy, defaultHostWorkspace, appAlias, log }: PlanOptions): Promise<MountPlan> => {
  const mounts: MountPlan['mounts'][number][] = []
  // A blocked path is refused whatever its mode, so that a wrong configuration shows.
  const workspace = await planWorkspace(set, policy, defaultHostWorkspace)
  for (const [at, { host_path: path, mount_path: given, mode, skip_roots: skipRoots, optional }] of set.mounts.entries()) {
    const field = `mounts.${at}`
    const target = guestPath(given, { field, appAlias })
    const source = await policy.resolve(path, { field, skipRoots, optional })
    if (source === undefined) log.warn({ host_path: path, mount_path: target }, 'a directory that is not there is not mounted')
    if (source === undefined || mode === 'none') continue
    if (mounts.some((other) => other.target === target))
      throw new BoxofficeError('INVALID_REQUEST', `${field}: mount_path ${target} is given twice`, { details: { field } })
    mounts.push({ source, target, readOnly: mode === 'ro', field })
  }
  return { workspace, mounts }
}

const planWorkspace = async (
  { workspace_host_path: asked, workspace_mode: mode }: MountSet,
  policy: MountPolicy,
  defaultPath: string | undefined,
): Promise<MountPlan['workspace']> => {
  const path = asked ?? (mode === 'none' ? undefined : defaultPath)
  if (path === undefined) return null
  // Its operator's own setting need not be below the roots as well.
  const skipRoots = asked === null
  const source = await policy.resolve(path, { field: 'workspace_host_path', skipRoots, optional: false })
  return source === undefined || mode === 'none' ? null : { source, readOnly: mode === 'ro' }
}

/** Refuses what the sandbox's user could not write, and makes what the mounts cover. `workspace` is on the host. */
export const prepareMounts = async ({ workspace: asked, mounts }: MountPlan, workspace: string, owner: Owner): Promise<void> => {
  if (asked !== null && !asked.readOnly) await requireWritable(asked.source, owner, 'workspace_host_path')
  for (const { source, readOnly, field } of mounts) if (!readOnly) await requireWritable(source, owner, field)
  const covering: Bind[] = [{ source: workspace, target: '/workspace', readOnly: asked?.readOnly ?? false }]
  for (const mount of mounts) {
    const below = covering.filter(({ target }) => mount.target.startsWith(`${target}/`)).sort((a, b) => b.target.length - a.target.length)
    const parent = below[0]
    if (parent !== undefined) {
      const segments = mount.target.slice(parent.target.length + 1).split('/')
      await makeMountPoint({ within: parent.source, segments, makeFor: parent.readOnly ? null : owner, field: mount.field })
    }
    covering.push(mount)
  }
}
