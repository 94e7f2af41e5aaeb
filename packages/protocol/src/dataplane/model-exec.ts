import { z } from 'zod'
import { LIMITS } from '../base/limits.ts'
import { EnvironmentVariables } from './exec.ts'

/** Names of the tool that runs a command for a model. */
export const MODEL_EXEC_NAMES = ['exec', 'sandbox_exec'] as const

/** A number, or one in words as models write it. */
const seconds = z
  .union([
    z.number(),
    z
      .string()
      .regex(/^\s*\d+(?:\.\d+)?\s*$/, 'must be a number of seconds')
      .transform(Number),
  ])
  .refine((value) => value > 0, 'must be more than 0')

/** Its arguments, exactly these: what runs where, and with which image and network, is not for a model to say [2-16]. */
export const ModelExecInput = z.strictObject({
  command: z
    .string()
    .max(LIMITS.commandBytes)
    .refine((command) => command.trim() !== '', 'must not be empty')
    .describe('What to run, as a line for the shell of the sandbox'),
  workdir: z.string().min(1).max(4096).optional().describe('Where to run it: below /workspace, which is the default'),
  timeout_sec: seconds.optional().describe('Seconds after which it is ended'),
  env: EnvironmentVariables.optional().describe('Environment variables for it'),
})
export type ModelExecInput = z.input<typeof ModelExecInput>

export const ModelExecResult = z.object({
  session_id: z.string(),
  backend: z.string(),
  status: z.enum(['completed', 'timed_out']),
  /** It came to its end by itself, with 0. */
  ok: z.boolean(),
  /** Null after a timeout. */
  exit_code: z.number().int().nullable(),
  stdout: z.string(),
  stderr: z.string(),
  stdout_truncated: z.boolean(),
  stderr_truncated: z.boolean(),
  duration_ms: z.number(),
})
export type ModelExecResult = z.infer<typeof ModelExecResult>
