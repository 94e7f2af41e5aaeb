import { BoxofficeError, EnvironmentVariables, type ExecRequest } from '@boxoffice/protocol'
import { z } from 'zod'
import { validate } from '../../../http/body.ts'

/** How the newer clients name the environment of a box or a command. */
export const RunConfig = z.object({
  user: z.string().nullish(),
  work_dir: z.string().nullish(),
  env_vars: EnvironmentVariables.nullish(),
})

/** Where and how a command runs, in the fields of both ways. */
export const runFields = {
  shell: z.string().nullish(),
  cwd: z.string().nullish(),
  env: EnvironmentVariables.nullish(),
  run_config: RunConfig.nullish(),
}
type RunFields = z.infer<z.ZodObject<typeof runFields>>

/** `POST …/execute`. */
const Execute = z.object({ command: z.string(), timeout: z.number().nonnegative().nullish(), ...runFields })

/** Gives a command's own variables those of its box. */
export type WithBoxEnvironment = (own: Record<string, string>) => Promise<Record<string, string>>

/** As much as a command may say: clients of this route page nothing. */
const MAX_OUTPUT_BYTES = 16 * 1024 * 1024
/** What these clients always name; without a shell a command gets it where it is there, else `/bin/sh`. */
const DEFAULT_SHELL = '/bin/bash'

/** The same in the words of the dataplane. UNSUPPORTED: another user than the sandbox's. */
export async function commandFields(
  { shell, cwd, env, run_config: config }: RunFields,
  withBoxEnvironment: WithBoxEnvironment,
): Promise<Pick<ExecRequest, 'shell' | 'cwd' | 'env'>> {
  refuseUser(config)
  const directory = cwd ?? config?.work_dir
  return {
    ...(shell == null || shell === DEFAULT_SHELL ? {} : { shell }),
    ...(directory == null ? {} : { cwd: directory }),
    env: await withBoxEnvironment({ ...config?.env_vars, ...env }),
  }
}

export function refuseUser(config: z.infer<typeof RunConfig> | null | undefined): void {
  if (config?.user) throw new BoxofficeError('UNSUPPORTED', 'run_config.user is not supported by Boxoffice; all runs as the sandbox user')
}

export async function readExecute(body: unknown, withBoxEnvironment: WithBoxEnvironment): Promise<ExecRequest> {
  const { command, timeout, ...fields } = validate(Execute, body)
  return {
    command,
    ...(await commandFields(fields, withBoxEnvironment)),
    ...(timeout == null ? {} : { timeout_seconds: timeout }),
    max_output_bytes: MAX_OUTPUT_BYTES,
    output_keep: 'head',
  }
}
