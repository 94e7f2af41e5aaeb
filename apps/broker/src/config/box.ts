import { AbsolutePath } from '@boxoffice/protocol'
import { z } from 'zod'
import { DEFAULT_SCOPE_TEMPLATE } from '../domain/scope-catalog.ts'

/** A skill of a pipeline: its directory on the agent's host is mounted at `/workspace/.skills/{name}` [0-29]. */
const Skill = z.object({
  name: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, 'must be 1 to 64 letters, digits, - and _'),
  package_root: AbsolutePath,
})

/** Wire names, as the pipelines of seed 000 have them; what else such a file holds is not ours and is left alone. */
export const Pipeline = z.object({
  uuid: z.string().min(1).max(128).describe('id of the pipeline'),
  /** One that was configured before there was a choice has none [0-17]. */
  'box-session-id-template': z
    .string()
    .max(1000)
    .default(DEFAULT_SCOPE_TEMPLATE)
    .describe('template of the session id: chats with one id share a sandbox'),
  skills: z
    .array(Skill)
    .max(64)
    .default([])
    .describe('skills, `{"name","package_root"}` each: a directory of the agent\'s host that is mounted at `/workspace/.skills/NAME`'),
  mcp_servers: z.array(z.record(z.string(), z.unknown())).default([]).describe('MCP servers of the pipeline, each as in `mcp_servers`'),
})
export type Pipeline = z.infer<typeof Pipeline>

/** `box` in the configuration (contract 4.7). Pipelines keep their wire names. */
export const BoxSettings = z.strictObject({
  /** [2-10] */
  profile: z.string().min(1).default('default').describe('profile of every Box session'),
  /** [2-06] */
  image: z
    .string()
    .min(1)
    .nullable()
    .default(null)
    .describe('image of Box sessions, before that of the profile and after that of a request; default: that of the profile'),
  /** [2-21, 2-22] */
  sessionTtlSec: z.coerce.number().default(300).describe('seconds without use after which a Box session ends; 0 or less: never'),
  /** [2-24] */
  onTimeout: z
    .enum(['drop', 'keep'])
    .default('drop')
    .describe('what becomes of a session when a command runs out of time: drop ends it, keep leaves it'),
  /** [2-35] */
  maxSessions: z.coerce.number().int().min(1).default(64).describe('live Box sessions of a tenant at most'),
  /** [2-50] */
  controlToken: z
    .string()
    .min(32, 'must have at least 32 characters; generate one with: openssl rand -base64 33')
    .optional()
    .describe('token whose holder is an operator on the Box surface, at least 32 characters; default: none'),
  pipelines: z.array(Pipeline).default([]).describe('pipelines: which chats share a sandbox, which skills and MCP servers they have'),
})
export type BoxSettings = z.infer<typeof BoxSettings>
