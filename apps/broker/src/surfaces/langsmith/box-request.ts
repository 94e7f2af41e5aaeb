import { BoxofficeError, type Profile } from '@boxoffice/protocol'
import { z } from 'zod'
import { validate } from '../../http/body.ts'
import type { MakeOptions } from '../facade/facade-sessions.ts'
import { SandboxEnvironment } from '../facade/sandbox-environments.ts'
import { RunConfig, refuseUser } from './commands/command-request.ts'

/** The name of a box is part of a path and of the id of a thread. */
export const BOX_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/
const MAX_WAIT_SECONDS = 600
const MIB = 1024 * 1024
/** How LangSmith spells "never" in a duration, and how that is kept. */
const NEVER = 0
export const NEVER_SECONDS = 100 * 365 * 24 * 3600
const DEFAULT_IDLE_SECONDS = 900

const seconds = z.number().int().min(0).max(NEVER_SECONDS).nullish()

/** `POST …/boxes`. What is not here and not in `UNSUPPORTED` is passed over, as clients send more with each version. */
const CreateBox = z.object({
  name: z.string().regex(BOX_NAME, 'must be letters, digits, ".", "_" and "-", at most 63, and begin with a letter or digit').nullish(),
  wait_for_ready: z.boolean().nullish(),
  timeout: z.number().min(0).nullish(),
  idle_ttl_seconds: seconds,
  delete_after_stop_seconds: seconds,
  vcpus: z.number().positive().nullish(),
  cpu_millicores: z.number().positive().nullish(),
  mem_bytes: z.number().int().min(MIB).nullish(),
  fs_capacity_bytes: z.number().int().min(MIB).nullish(),
  labels: z.record(z.string().max(64), z.string().max(256)).nullish(),
  env_vars: SandboxEnvironment.nullish(),
  run_config: RunConfig.extend({ env_vars: SandboxEnvironment.nullish() }).nullish(),
  persistent: z.boolean().nullish(),
  snapshot_id: z.string().nullish(),
  snapshot_name: z.string().nullish(),
  snapshot: z.string().nullish(),
})

/** What has no counterpart here; a request that wants it is refused, not half served. */
const UNSUPPORTED = [
  'access_delegation',
  'mount_config',
  'preserve_memory_on_stop',
  'proxy_config',
  'restore_memory',
  'tag_value_ids',
  'volumes',
] as const
/** The name of the profile that a box gets without a snapshot, as some clients spell it. */
const DEFAULT_NAMES: ReadonlySet<string> = new Set(['base', 'default'])
/** Labels of the client's are kept apart from ours. */
export const LABEL_PREFIX = 'langsmith.'

export type BoxRequest = {
  name: string | undefined
  /** For each command of the box. */
  environment: Record<string, string>
  /** What the box is made of. */
  make: Omit<MakeOptions, 'mode'>
  /** False: the answer does not wait for the sandbox. */
  waits: boolean
}

/** Reads the body of a creation. Throws INVALID_REQUEST, UNSUPPORTED with the name of the feature, or BINDING_NOT_FOUND for an unknown profile. */
export function readCreate(body: unknown, profiles: ReadonlyMap<string, Profile>): BoxRequest {
  refuseUnsupported(body)
  const wanted = validate(CreateBox, body)
  const profile = profileOf(wanted.snapshot_name ?? wanted.snapshot_id ?? wanted.snapshot ?? undefined, profiles)
  refuseUser(wanted.run_config)
  if (wanted.persistent === false)
    throw new BoxofficeError('UNSUPPORTED', 'persistent: false is not supported by Boxoffice; files outlive a stop')
  if (wanted.run_config?.work_dir)
    throw new BoxofficeError('UNSUPPORTED', 'run_config.work_dir of a box is not supported by Boxoffice; give cwd to each run')
  const waits = wanted.wait_for_ready !== false
  return {
    name: wanted.name ?? undefined,
    waits,
    environment: { ...wanted.run_config?.env_vars, ...wanted.env_vars },
    make: {
      profile,
      overrides: { profile: overridesOf(wanted, profiles.get(profile ?? 'default')) },
      labels: Object.fromEntries(Object.entries(wanted.labels ?? {}).map(([name, value]) => [LABEL_PREFIX + name, value])),
      wait: waits ? Math.min(MAX_WAIT_SECONDS, Math.ceil(wanted.timeout ?? 30)) : 0,
    },
  }
}

/** 501 where a body has a field that asks for what is not there. */
export function refuseUnsupported(body: unknown, fields: readonly string[] = UNSUPPORTED): void {
  if (typeof body !== 'object' || body === null) return
  const found = Object.entries(body).find(([name, value]) => fields.includes(name) && isWanted(value))
  if (found !== undefined) throw new BoxofficeError('UNSUPPORTED', `${found[0]} is not supported by Boxoffice; leave it out`)
}

const isWanted = (value: unknown): boolean =>
  value !== null && value !== undefined && value !== false && !(typeof value === 'object' && Object.keys(value).length === 0)

function profileOf(name: string | undefined, profiles: ReadonlyMap<string, Profile>): string | null {
  if (name === undefined || (DEFAULT_NAMES.has(name) && !profiles.has(name))) return null
  if (!profiles.has(name))
    throw new BoxofficeError('BINDING_NOT_FOUND', `there is no snapshot "${name.slice(0, 100)}"; name a profile of the broker`)
  return name
}

/**
 * Sizes are at most the profile's; a quota of 0 is no quota. An idle box is stopped a second after it is frozen, as LangSmith's are. A box with
 * `delete_after_stop_seconds` ends with its lease, which is counted from its last use.
 */
function overridesOf(wanted: z.infer<typeof CreateBox>, base: Profile | undefined): Partial<z.input<typeof Profile>> {
  const { vcpus, cpu_millicores: millicores, mem_bytes: memory, fs_capacity_bytes: disk } = wanted
  const cpus = vcpus ?? (millicores == null ? undefined : millicores / 1000)
  const overrides: Partial<z.input<typeof Profile>> = {
    ...(cpus === undefined ? {} : { cpus: Math.min(cpus, base?.cpus ?? cpus) }),
    ...(memory == null ? {} : { memory_mb: Math.min(Math.floor(memory / MIB), base?.memory_mb ?? Number.POSITIVE_INFINITY) }),
    ...(disk == null ? {} : { workspace_quota_mb: Math.min(Math.floor(disk / MIB), base?.workspace_quota_mb || Number.POSITIVE_INFINITY) }),
  }
  const { idle_ttl_seconds: idleTtl, delete_after_stop_seconds: afterStop } = wanted
  if (idleTtl == null && !afterStop) return overrides
  const idle = idleTtl === NEVER ? NEVER_SECONDS : (idleTtl ?? base?.idle_timeout_seconds ?? DEFAULT_IDLE_SECONDS)
  const ends = afterStop ? { on_lease_expiry: 'terminate' as const, lease_seconds: idle + afterStop } : { lease_seconds: idle }
  return { ...overrides, idle_timeout_seconds: idle, stop_after_seconds: 1, ...ends }
}
