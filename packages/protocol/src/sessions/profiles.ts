import { z } from 'zod'
import { CAPABILITIES, Capability, KnownCapabilities } from '../base/capabilities.ts'
import { EgressPolicy, Network } from './egress.ts'
import { MAX_MOUNTS, Mount, MountMode, type MountSet } from './mounts.ts'

/** A named set of image, limits, network, suspend policy and pool size (contract 4.1). Times in seconds, memory in MiB. */
export const Profile = z.object({
  name: z
    .string()
    .regex(/^[a-z0-9][a-z0-9_-]{0,63}$/)
    .describe('name by which a session asks for the profile'),
  image: z.string().nullable().default(null).describe("image; null: the agent's `default_image`. the local provider uses none"),
  network: Network.default('off').describe(
    'network of the sandbox: none (no loopback either, so no ports), off, proxy (what `egress` allows, through the agent) or on',
  ),
  egress: EgressPolicy.nullable()
    .default(null)
    .describe(
      'where programs may connect to through the proxy; null: nowhere, and with `network: on` to every public address on ports 80 and 443',
    ),
  host_path_mode: MountMode.default('rw').describe('mode of a workspace that is a directory of the host: none, ro or rw'),
  cpus: z.number().positive().default(1).describe('CPUs'),
  memory_mb: z.number().int().min(32).default(512).describe('memory in MiB'),
  pids_limit: z.number().int().min(1).default(128).describe('processes and threads'),
  read_only_rootfs: z.boolean().default(true).describe('whether the root file system is read-only'),
  user: z
    .string()
    .regex(/^[1-9]\d{0,9}(?::[1-9]\d{0,9})?$/, 'must be a numeric uid or uid:gid, and not root')
    .nullable()
    .default(null)
    .describe('uid or uid:gid on the host, only where the agent is root; null: one that no other sandbox has'),
  mounts: z.array(Mount).max(MAX_MOUNTS).default([]).describe('mounts of every sandbox of the profile, before those of a request'),
  /** [1-21] */
  app_alias: z.boolean().default(true).describe('shows the workspace at `/app` as well'),
  isolation: z
    .enum(['container', 'bubblewrap', 'none'])
    .nullable()
    .default(null)
    .describe('isolation that the agent must have: container, bubblewrap or none; null: any'),
  oci_runtime: z.string().nullable().default(null).describe('runtime of the container engine, such as `runsc`'),
  pool_size: z.number().int().min(0).max(256).default(0).describe('sandboxes that are made ahead of need'),
  timeout_sec: z
    .number()
    .positive()
    .default(30)
    .describe("seconds of a command of the Box surface and of the model's tool, where none are asked for"),
  max_timeout_sec: z.number().positive().default(120).describe('seconds of such a command at most'),
  max_execs: z.number().int().min(1).default(32).describe('commands of a sandbox at once'),
  max_exec_seconds: z.number().positive().default(3600).describe('seconds of a command of the dataplane at most'),
  max_upload_bytes: z
    .number()
    .int()
    .positive()
    .default(100 * 1024 * 1024)
    .describe('bytes of an upload at most'),
  workspace_quota_mb: z.number().int().min(0).default(0).describe('MiB of a workspace at most; 0: not limited'),
  persistent: z.boolean().default(false).describe('keeps the workspace when the session ends; the next session of the scope has it again'),
  idle_after_seconds: z.number().positive().default(60).describe('seconds without activity after which a session is reported as idle'),
  idle_timeout_seconds: z.number().positive().default(900).describe('seconds without activity after which a sandbox is frozen'),
  stop_after_seconds: z
    .number()
    .positive()
    .default(3600)
    .describe('seconds after the freeze until the sandbox is stopped: its memory is freed, its workspace stays'),
  hard_ttl_seconds: z.number().positive().default(28800).describe('seconds after which a session ends, whatever runs'),
  lease_seconds: z.number().positive().default(900).describe('seconds that a session lives without a heartbeat'),
  /** [4-75] */
  capabilities: z
    .array(Capability)
    .default([...CAPABILITIES])
    .describe('capabilities that its sessions can be granted at most'),
  public_ports: z.boolean().default(false).describe('allows ports of its sandboxes to be exposed to everybody who has the URL'),
  previews_wake: z.boolean().default(true).describe('whether a request for a preview wakes a suspended sandbox'),
  on_lease_expiry: z
    .enum(['suspend', 'terminate'])
    .default('suspend')
    .describe('what becomes of a session whose lease has passed: suspend or terminate'),
  end_grace_seconds: z
    .number()
    .min(0)
    .max(30)
    .default(5)
    .describe('seconds that processes have to end after the session has ended, before they are killed'),
  provision_timeout_seconds: z.number().positive().default(120).describe('seconds that making a sandbox may take'),
  /** [2-07] */
  locked: z.array(z.string()).default([]).describe('fields that a request cannot override'),
})
export type Profile = z.infer<typeof Profile>

/**
 * Where programs of such a sandbox may connect to through the proxy. A profile that says nothing allows nothing with `proxy`, and every
 * public address on ports 80 and 443 with `on`.
 */
export const policyOf = ({ network, egress }: Pick<Profile, 'network' | 'egress'>): EgressPolicy =>
  egress ?? EgressPolicy.parse(network === 'on' ? { allow: ['*'] } : {})

/** Whether programs of such a sandbox get out at all. */
export const hasNetwork = ({ network }: Pick<Profile, 'network'>): boolean => network === 'proxy' || network === 'on'

/** A profile as a broker sends it to an agent, which may be of an earlier release. */
export const SentProfile = Profile.extend({ capabilities: KnownCapabilities.default([...CAPABILITIES]) })

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

/** What of the host a sandbox of that profile sees where nobody says more. */
export const profileMounts = (profile: Profile): MountSet => ({
  workspace_host_path: null,
  workspace_mode: profile.host_path_mode,
  mounts: profile.mounts,
})
