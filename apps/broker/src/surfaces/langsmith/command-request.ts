import { EnvironmentVariables, type ExecRequest } from '@boxoffice/protocol'
import { z } from 'zod'
import { validate } from '../../http/body.ts'

/** `POST …/execute`. */
const Execute = z.object({
  command: z.string(),
  timeout: z.number().nonnegative().nullish(),
  shell: z.string().nullish(),
  cwd: z.string().nullish(),
  env: EnvironmentVariables.nullish(),
})

/** As much as a command may say: clients of this route page nothing. */
const MAX_OUTPUT_BYTES = 16 * 1024 * 1024
/** What these clients always name; without a shell a command gets it where it is there, else `/bin/sh`. */
const DEFAULT_SHELL = '/bin/bash'

/** Where, how and for how long a command runs, in the fields of both ways. */
export const commandFields = ({
  shell,
  cwd,
  env,
}: {
  shell?: string | null | undefined
  cwd?: string | null | undefined
  env?: Record<string, string> | null | undefined
}): Pick<ExecRequest, 'shell' | 'cwd' | 'env'> => ({
  ...(shell == null || shell === DEFAULT_SHELL ? {} : { shell }),
  ...(cwd == null ? {} : { cwd }),
  ...(env == null ? {} : { env }),
})

export function readExecute(body: unknown): ExecRequest {
  const { command, timeout, ...fields } = validate(Execute, body)
  return {
    command,
    ...commandFields(fields),
    ...(timeout == null ? {} : { timeout_seconds: timeout }),
    max_output_bytes: MAX_OUTPUT_BYTES,
    output_keep: 'head',
  }
}
