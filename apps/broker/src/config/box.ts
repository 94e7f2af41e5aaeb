import { AbsolutePath } from '@boxoffice/protocol'
import { z } from 'zod'
import { DEFAULT_SCOPE_TEMPLATE } from '../domain/scope-catalog.ts'

/** A skill of a pipeline: its directory on the agent's host is mounted at `/workspace/.skills/{name}` [0-29]. */
const Skill = z.object({
  name: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, 'must be 1 to 64 letters, digits, - and _'),
  package_root: AbsolutePath,
})

/** Wire names, as the pipelines of seed 000 have them; what else such a file holds is not ours and is left alone. */
const Pipeline = z.object({
  uuid: z.string().min(1).max(128),
  /** One that was configured before there was a choice has none [0-17]. */
  'box-session-id-template': z.string().max(1000).default(DEFAULT_SCOPE_TEMPLATE),
  skills: z.array(Skill).max(64).default([]),
  mcp_servers: z.array(z.record(z.string(), z.unknown())).default([]),
})
export type Pipeline = z.infer<typeof Pipeline>

/** `box` in the configuration (contract 4.7). Pipelines keep their wire names. */
export const BoxSettings = z.strictObject({
  /** Of every Box session [2-10]. */
  profile: z.string().min(1).default('default'),
  /** Beats the image of the profile, not that of a request [2-06]. */
  image: z.string().min(1).nullable().default(null),
  /** A session that was not used for so long ends; 0 or less: never [2-21, 2-22]. */
  sessionTtlSec: z.coerce.number().default(300),
  /** What becomes of a session whose command ran out of time [2-24]. */
  onTimeout: z.enum(['drop', 'keep']).default('drop'),
  /** Live Box sessions per tenant [2-35]. */
  maxSessions: z.coerce.number().int().min(1).default(64),
  /** Lets its holder in as an operator, beside API keys with the right "box" [2-50]. */
  controlToken: z.string().min(32, 'must have at least 32 characters; generate one with: openssl rand -base64 33').optional(),
  pipelines: z.array(Pipeline).default([]),
})
export type BoxSettings = z.infer<typeof BoxSettings>
