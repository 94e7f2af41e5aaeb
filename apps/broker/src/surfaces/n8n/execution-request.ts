import { EnvironmentVariables, ExecId } from '@boxoffice/protocol'
import { z } from 'zod'
import type { ProcessStart } from '../../dataplane/process-socket.ts'
import { validate } from '../../http/body.ts'

/** What n8n's service gives a command that names no time. */
const DEFAULT_TIMEOUT_MS = 300_000

const ExecutionRequest = z.object({
  command: z.string().min(1, 'must not be empty'),
  env: EnvironmentVariables.nullish(),
  workdir: z.string().nullish(),
  timeout_ms: z.number().nonnegative().nullish(),
  exec_id: ExecId.nullish(),
})

/** Who comes again takes nothing from a connection that is half gone. */
const SHARED = { mode: 'mirror' } as const

/** `POST …/executions`: a command that outlives its client. One with an id that there is already is attached to, and never runs twice. */
export function readExecution(body: unknown): ProcessStart {
  const { command, env, workdir, timeout_ms, exec_id } = validate(ExecutionRequest, body)
  const frame = {
    command,
    stdin: 'closed',
    detach: true,
    timeout_seconds: (timeout_ms || DEFAULT_TIMEOUT_MS) / 1000,
    ...(env == null ? {} : { env }),
    ...(workdir == null || workdir === '' ? {} : { cwd: workdir }),
    ...(exec_id == null ? {} : { exec_id }),
    ...SHARED,
  }
  return { kind: 'exec', frame }
}

/** `GET …/executions/{id}`: what is kept of a command, and what comes. */
export const followExecution = (id: string): ProcessStart => ({
  kind: 'exec',
  frame: { attach: id, stdout_offset: 0, stderr_offset: 0, ...SHARED },
})
