import { z } from 'zod'
import type { BoxofficeError, ErrorCode } from '../base/errors.ts'
import { ExecId } from '../base/ids.ts'
import { EnvironmentVariables } from './exec.ts'

/**
 * Frames of `WS D/execute/ws`, in the shape of LangSmith's clients (contract 7.4): text messages, one command per socket.
 *
 * Order: `execute | reconnect → started → (stdout | stderr)* → exit | error → close`. Fields that these clients send and that are
 * not here are passed over.
 */
const seconds = z.number().nonnegative().nullish()
const streamOffset = z.number().int().nonnegative().nullish()

export const ExecuteFrame = z.object({
  type: z.literal('execute'),
  command: z.string(),
  timeout_seconds: seconds,
  timeout: seconds,
  shell: z.string().nullish(),
  cwd: z.string().nullish(),
  env: EnvironmentVariables.nullish(),
  /** `exec_id`: sent again it attaches, and never runs twice. */
  command_id: ExecId.nullish(),
  close_stdin: z.boolean().nullish(),
  /** True: the command ends with its client; else it goes on to its own end. */
  kill_on_disconnect: z.boolean().nullish(),
  pty: z.unknown().optional(),
})
export const ReconnectFrame = z.object({
  type: z.literal('reconnect'),
  command_id: ExecId,
  stdout_offset: streamOffset,
  stderr_offset: streamOffset,
})
export const InputFrame = z.object({ type: z.literal('input'), data: z.string() })
export const CloseStdinFrame = z.object({ type: z.literal('close_stdin') })
export const KillFrame = z.object({ type: z.literal('kill') })
export const ExecuteClientFrame = z.discriminatedUnion('type', [ExecuteFrame, ReconnectFrame, InputFrame, CloseStdinFrame, KillFrame])
export type ExecuteClientFrame = z.infer<typeof ExecuteClientFrame>

const output = { data: z.string(), offset: z.number().int() }
export const EXECUTE_ERROR_TYPES = ['CommandTimeout', 'CommandNotFound', 'SessionExpired', 'CommandError'] as const
export const ExecuteServerFrame = z.discriminatedUnion('type', [
  z.object({ type: z.literal('started'), command_id: z.string(), pid: z.number().int() }),
  z.object({ type: z.literal('stdout'), ...output }),
  z.object({ type: z.literal('stderr'), ...output }),
  z.object({ type: z.literal('exit'), exit_code: z.number().int() }),
  z.object({ type: z.literal('error'), error_type: z.enum(EXECUTE_ERROR_TYPES), error: z.string() }),
])
export type ExecuteServerFrame = z.infer<typeof ExecuteServerFrame>

const ERROR_TYPES: Partial<Record<ErrorCode, (typeof EXECUTE_ERROR_TYPES)[number]>> = {
  EXEC_NOT_FOUND: 'CommandNotFound',
  TIMEOUT: 'CommandTimeout',
  UNAUTHENTICATED: 'SessionExpired',
  TOKEN_EXPIRED: 'SessionExpired',
  SESSION_RELEASED: 'SessionExpired',
  SESSION_EXPIRED: 'SessionExpired',
  SANDBOX_LOST: 'SessionExpired',
}

/** The frame that tells an error of ours. */
export const executeError = ({ code, message }: Pick<BoxofficeError, 'code' | 'message'>): ExecuteServerFrame => ({
  type: 'error',
  error_type: ERROR_TYPES[code] ?? 'CommandError',
  error: message,
})
