import { z } from 'zod'
import { CAPABILITIES, Capability } from './capabilities.ts'
import { MAX_MOUNTS, Mount, MountMode } from './mounts.ts'

/** A named set of image, limits, network, suspend policy and pool size (contract 4.1). Times in seconds, memory in MiB. */
export const Profile = z.object({
  name: z.string().regex(/^[a-z0-9][a-z0-9_-]{0,63}$/),
  /** Null: the agent's configured default image. Ignored by the local provider. */
  image: z.string().nullable().default(null),
  network: z.enum(['off', 'on']).default('off'),
  /** Of a workspace that is a directory of the host. */
  host_path_mode: MountMode.default('rw'),
  cpus: z.number().positive().default(1),
  memory_mb: z.number().int().min(32).default(512),
  pids_limit: z.number().int().min(1).default(128),
  read_only_rootfs: z.boolean().default(true),
  /** `uid` or `uid:gid` on the host; null: one that no other sandbox has. Only where the agent is root. */
  user: z
    .string()
    .regex(/^[1-9]\d{0,9}(?::[1-9]\d{0,9})?$/, 'must be a numeric uid or uid:gid, and not root')
    .nullable()
    .default(null),
  /** In every sandbox of the profile, before those that a request adds. */
  mounts: z.array(Mount).max(MAX_MOUNTS).default([]),
  /** Shows the workspace at `/app` as well [1-21]. */
  app_alias: z.boolean().default(true),
  /** What keeps its sandboxes in; null: whatever the agent has. */
  isolation: z.enum(['container', 'bubblewrap', 'none']).nullable().default(null),
  oci_runtime: z.string().nullable().default(null),
  pool_size: z.number().int().min(0).max(256).default(0),
  /** Of the Box surface and of the model's tool; the dataplane has `max_exec_seconds`. */
  timeout_sec: z.number().positive().default(30),
  max_timeout_sec: z.number().positive().default(120),
  max_execs: z.number().int().min(1).default(32),
  max_exec_seconds: z.number().positive().default(3600),
  max_upload_bytes: z
    .number()
    .int()
    .positive()
    .default(100 * 1024 * 1024),
  /** MiB; 0: none. */
  workspace_quota_mb: z.number().int().min(0).default(0),
  persistent: z.boolean().default(false),
  idle_after_seconds: z.number().positive().default(60),
  idle_timeout_seconds: z.number().positive().default(900),
  stop_after_seconds: z.number().positive().default(3600),
  hard_ttl_seconds: z.number().positive().default(28800),
  lease_seconds: z.number().positive().default(900),
  /** What its sessions can be granted at most [4-75]. */
  capabilities: z.array(Capability).default([...CAPABILITIES]),
  on_lease_expiry: z.enum(['suspend', 'terminate']).default('suspend'),
  /** How long what runs may take over its end once the session has ended; then it is killed. */
  end_grace_seconds: z.number().min(0).max(30).default(5),
  provision_timeout_seconds: z.number().positive().default(120),
  /** Fields that a caller cannot override [2-07]. */
  locked: z.array(z.string()).default([]),
})
export type Profile = z.infer<typeof Profile>

const builtIn = (name: string, fields: Partial<z.input<typeof Profile>>): Profile => Profile.parse({ name, ...fields })

/** The four profiles that ship [2-04]. */
export const BUILT_IN_PROFILES: readonly Profile[] = [
  builtIn('default', {}),
  builtIn('offline_readonly', {
    host_path_mode: 'ro',
    cpus: 0.5,
    memory_mb: 256,
    pids_limit: 64,
    max_timeout_sec: 60,
    locked: ['network', 'host_path_mode', 'read_only_rootfs'],
  }),
  builtIn('network_basic', { network: 'on' }),
  builtIn('network_extended', {
    network: 'on',
    cpus: 2,
    memory_mb: 1024,
    pids_limit: 256,
    read_only_rootfs: false,
    max_timeout_sec: 300,
  }),
]
