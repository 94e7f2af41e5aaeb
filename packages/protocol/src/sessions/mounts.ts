import { z } from 'zod'
import { hasControlCharacter } from '../base/ids.ts'

/** How a directory of the host is shown in a sandbox; `none`: not at all [0-26]. */
export const MountMode = z.enum(['rw', 'ro', 'none'])
export type MountMode = z.infer<typeof MountMode>

const MAX_PATH = 4095

/** The text alone; what it leads to on the host is the agent's to check. */
export const AbsolutePath = z
  .string()
  .min(1)
  .max(MAX_PATH)
  .startsWith('/', 'must be an absolute path')
  .refine((path) => !hasControlCharacter(path), 'must not contain control characters')

/** A directory of the host beside the workspace [0-24, 0-25]. */
export const Mount = z.object({
  host_path: AbsolutePath,
  mount_path: AbsolutePath,
  mode: MountMode.default('rw'),
  /** An administrator's path: it need not be below the allowed roots; what is blocked stays blocked [2-96]. */
  skip_roots: z.boolean().default(false),
  /** A directory that is not there is left out with a warning [0-35]; else it is refused. */
  optional: z.boolean().default(false),
})
export type Mount = z.infer<typeof Mount>

export const MAX_MOUNTS = 64

/** Everything of the host that a sandbox sees: its workspace first, then the others in order [0-27]. */
export const MountSet = z.object({
  /** Null: a workspace that the agent makes and keeps. */
  workspace_host_path: AbsolutePath.nullable().default(null),
  /** Of `workspace_host_path`; a workspace of the agent's making can always be written. */
  workspace_mode: MountMode.default('rw'),
  mounts: z.array(Mount).max(MAX_MOUNTS).default([]),
})
export type MountSet = z.infer<typeof MountSet>

/** Whether a sandbox that has the one would be made the same with the other [0-34]. */
export const sameMounts = (one: MountSet, other: MountSet): boolean =>
  JSON.stringify(MountSet.parse(one)) === JSON.stringify(MountSet.parse(other))
