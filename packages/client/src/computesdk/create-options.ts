import { BoxofficeError } from '../base/errors.ts'
import { type OptionNames, refuseUnknown } from '../base/known-options.ts'

/** What `compute.sandbox.create()` may be given. ComputeSDK passes every other option on as well: one that has no meaning here is refused. */
export type ComputeCreateOptions = {
  /** The thread of an existing or new sandbox; its id is then this. Default: a new one. */
  threadId?: string | undefined
  /** With `namespace` the end of the id; a name that is taken is refused. */
  name?: string | undefined
  namespace?: string | undefined
  /** The profile. */
  templateId?: string | undefined
  /** Milliseconds for each command that has no `timeout` of its own. */
  timeout?: number | undefined
  /** For each command of this object. */
  envs?: Record<string, string> | undefined
  /** Where the commands of this object start. */
  directory?: string | undefined
  /** Becomes the labels of the session; a value that is not a string is written as JSON. */
  metadata?: Record<string, unknown> | undefined
  /** Ends the creation, and what it has made by then. */
  signal?: AbortSignal | undefined
}

const CREATE: OptionNames<ComputeCreateOptions> = {
  ...{ threadId: true, name: true, namespace: true, templateId: true, timeout: true },
  ...{ envs: true, directory: true, metadata: true, signal: true },
}

/** Options of ComputeSDK that name something which a profile decides here. */
const OF_A_PROFILE: readonly string[] = [
  ...['image', 'runtime', 'cpu', 'cpuLimit', 'cpus', 'vcpus', 'memory', 'memoryMiB', 'memMiB', 'memoryMb', 'diskMiB', 'resources'],
  ...['launch_parameters', 'deploymentPlan', 'size', 'vmTier'],
]

/** Refuses with `UNSUPPORTED` what Boxoffice does not have, with `INVALID_REQUEST` what nobody knows. */
export const checkCreateOptions = (options: ComputeCreateOptions & Record<string, unknown>): ComputeCreateOptions => {
  const given = Object.keys(options).filter((name) => options[name] !== undefined)
  const ofProfile = given.find((name) => OF_A_PROFILE.includes(name))
  if (ofProfile !== undefined) throw unsupported(`the option ${ofProfile}: a profile decides it, name one with templateId`)
  if (given.includes('snapshotId')) throw unsupported('snapshots (the option snapshotId)')
  refuseUnknown('sandbox.create', options, CREATE)
  if (options.threadId !== undefined && (options.name ?? options.namespace) !== undefined)
    throw new BoxofficeError('INVALID_REQUEST', 'sandbox.create: give threadId, or name and namespace')
  return options
}

export const unsupported = (feature: string): BoxofficeError =>
  new BoxofficeError('UNSUPPORTED', `Boxoffice does not support ${feature}`, { status: 501 })

/** Labels are strings. */
export const labelsOf = (metadata: Record<string, unknown> = {}): Record<string, string> =>
  Object.fromEntries(
    Object.entries(metadata).map(([name, value]) => [name, typeof value === 'string' ? value : (JSON.stringify(value) ?? '')]),
  )
