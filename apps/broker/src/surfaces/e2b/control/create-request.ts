import { BoxofficeError, describeIssues } from '@boxoffice/protocol'
import { z } from 'zod'
import { SandboxEnvironment } from '../../facade/sandbox-environments.ts'
import { unsupported } from '../call/unsupported.ts'

/** Seconds that a sandbox lives where its client names none. */
export const DEFAULT_TIMEOUT = 300
const MAX_TIMEOUT = 30 * 24 * 3600
const MAX_METADATA = 64

const Timeout = z.number().int().min(0).max(MAX_TIMEOUT)
const Metadata = z
  .record(z.string().max(256), z.string().max(4096))
  .refine((metadata) => Object.keys(metadata).length <= MAX_METADATA, `must have at most ${MAX_METADATA} entries`)

/** `POST /v2/sandboxes` and `/sandboxes` (contract 7.3). */
const CreateRequest = z.looseObject({
  templateID: z.string().min(1).max(256).default('base'),
  timeout: Timeout.nullish().transform((timeout) => timeout ?? DEFAULT_TIMEOUT),
  metadata: Metadata.nullish().transform((metadata) => metadata ?? {}),
  envVars: SandboxEnvironment.nullish(),
  autoPause: z.boolean().nullish(),
  autoPauseMemory: z.boolean().nullish(),
  autoResume: z.looseObject({ enabled: z.boolean() }).nullish(),
  allow_internet_access: z.boolean().nullish(),
})
export type CreateRequest = z.infer<typeof CreateRequest>

const NOT_SERVED: Readonly<Record<string, string>> = {
  mcp: 'MCP gateway',
  network: 'network rules',
  iam: 'identity tokens',
  volumeMounts: 'volumes',
  secrets: 'secrets',
}

/** Throws INVALID_REQUEST for a bad field, UNSUPPORTED for a feature that is not served: nothing is left out silently. */
export function readCreate(body: unknown): CreateRequest {
  const request = parsed(CreateRequest, body)
  for (const [field, feature] of Object.entries(NOT_SERVED)) if (isGiven(request[field])) throw unsupported(feature)
  if (request.autoPauseMemory === false) throw unsupported('pause without memory at the timeout', 'pause it with keepMemory: false')
  if (request.autoResume?.enabled === true) throw unsupported('resume by traffic', 'connect to the sandbox to resume it')
  return request
}

/** The seconds of `POST …/timeout` and `…/connect`. `memory: false` asks for a reboot. */
export function readTimeout(body: unknown): number | undefined {
  const { timeout, memory } = parsed(z.looseObject({ timeout: Timeout.nullish(), memory: z.boolean().nullish() }), body)
  if (memory === false) throw unsupported('reboot of a paused sandbox', 'connect without onResume')
  return timeout ?? undefined
}

/** `POST …/pause`: without memory the sandbox is stopped, and what runs in it ends. */
export const readPause = (body: unknown): 'freeze' | 'stop' =>
  parsed(z.looseObject({ memory: z.boolean().nullish() }), body).memory === false ? 'stop' : 'freeze'

const isGiven = (value: unknown): boolean =>
  value !== undefined && value !== null && !(typeof value === 'object' && Object.keys(value).length === 0)

function parsed<T>(schema: z.ZodType<T>, body: unknown): T {
  const result = schema.safeParse(body)
  if (result.success) return result.data
  throw new BoxofficeError('INVALID_REQUEST', describeIssues(result.error))
}
