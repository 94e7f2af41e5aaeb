import { withoutSlash } from '@boxoffice/kit/without-slash'
import { AbsolutePath, EnvironmentVariables, Mount, MountMode, ScopeId, ScopeVariables } from '@boxoffice/protocol'
import { z } from 'zod'

const Mode = z.enum(['off', 'on'])

/** Where a workspace is unless a request mounts a directory of the host elsewhere. */
export const DEFAULT_MOUNT_PATH = '/workspace'

/** Absent and null say the same: whatever the profile has [2-06]. */
const orAbsent = <T extends z.ZodType>(schema: T) =>
  schema.nullish().transform((value) => (value === null ? undefined : value) as z.output<T> | undefined)

/** White space around an id is not part of it [2-01]. */
const SessionId = z.string().trim().pipe(ScopeId)

/**
 * What a Box request may say [2-01, 2-02]. Everything is optional: what is absent comes from the profile, or from the session where
 * it lives already. Fields that nobody knows are ignored.
 */
export const BoxSpec = z
  .object({
    cmd: z.string().default(''),
    session_id: orAbsent(SessionId),
    workdir: orAbsent(AbsolutePath),
    /** A text as well, as models write it [2-09]. */
    timeout_sec: orAbsent(z.coerce.number('must be a number').positive('must be above 0')),
    env: orAbsent(EnvironmentVariables),
    image: orAbsent(z.string().min(1, 'must not be empty')),
    network: orAbsent(Mode),
    host_path: orAbsent(AbsolutePath),
    host_path_mode: orAbsent(MountMode),
    mount_path: orAbsent(AbsolutePath),
    extra_mounts: orAbsent(z.array(Mount.pick({ host_path: true, mount_path: true, mode: true })).max(64)),
    cpus: orAbsent(z.number().positive('must be above 0')),
    memory_mb: orAbsent(z.number().int().min(32)),
    pids_limit: orAbsent(z.number().int().min(1)),
    read_only_rootfs: orAbsent(z.boolean()),
    persistent: orAbsent(z.boolean()),
    workspace_quota_mb: orAbsent(z.number().int().min(0)),
    skill_name: orAbsent(z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, 'must be 1 to 64 letters, digits, - and _')),
    /** Whose template and skills hold; without a `session_id` the id is the template's for `variables` [0-09]. */
    pipeline_uuid: orAbsent(z.string().min(1).max(128)),
    scope_template: orAbsent(z.string().max(1000)),
    variables: orAbsent(ScopeVariables),
    /** The caller's name for what it is about; told with errors [2-47]. */
    query_id: orAbsent(z.union([z.string().max(256), z.number()])),
  })
  .superRefine(({ workdir, host_path, host_path_mode = 'rw', mount_path = DEFAULT_MOUNT_PATH }, context) => {
    const refuse = (field: string, message: string) => context.addIssue({ code: 'custom', path: [field], message })
    if (host_path === undefined && mount_path !== DEFAULT_MOUNT_PATH)
      refuse('mount_path', `must be ${DEFAULT_MOUNT_PATH} where no host_path is mounted`)
    if (host_path === undefined || host_path_mode === 'none' || workdir === undefined) return
    if (!isBelow(workdir, mount_path)) refuse('workdir', `must be ${mount_path} or below it when host_path is mounted there`)
  })
export type BoxSpec = z.infer<typeof BoxSpec>

const isBelow = (path: string, directory: string): boolean => {
  const base = withoutSlash(directory)
  return path === base || path.startsWith(`${base}/`)
}
