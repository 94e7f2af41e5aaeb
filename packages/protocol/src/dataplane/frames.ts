import { z } from 'zod'
import { Capability } from '../base/capabilities.ts'
import { ErrorEnvelope } from '../base/errors.ts'
import { ExecId } from '../base/ids.ts'
import { commandFields, exitFields, Signal } from './exec.ts'

/**
 * Frames of `WS W/exec/ws` and `WS W/shell/ws` (contract 3.3).
 *
 * Order: `auth → auth_ok → start → ready → (stdout | stderr)* → exit → close 1000`. `auth` and `ping` are allowed at any
 * time; nothing else before `auth_ok`. A spawn failure gives `exit` without `ready`.
 */
export const SUBPROTOCOL = 'boxoffice.v1'
export const SUBPROTOCOL_BINARY = 'boxoffice.v1.binary'
/** A browser may offer `bearer.<token>` as a second subprotocol; it is never echoed [C-38]. */
export const SUBPROTOCOL_BEARER_PREFIX = 'bearer.'

/** The first byte of a binary message: which stream the rest belongs to. An empty payload on stdin is its end. */
export const STREAM_STDIN = 0
export const STREAM_STDOUT = 1
export const STREAM_STDERR = 2

const offset = z.union([z.number().int().nonnegative(), z.literal('end')])
const dimension = z
  .number()
  .int()
  .overwrite((n) => Math.min(1000, Math.max(1, n)))

export const AuthFrame = z.object({ type: z.literal('auth'), token: z.string() })

const attachFields = {
  attach: ExecId.optional(),
  stdout_offset: offset.optional(),
  stderr_offset: offset.optional(),
  mode: z.enum(['takeover', 'mirror', 'viewer']).optional(),
  ack: z.boolean().optional(),
}

export const StartExecFrame = z.object({
  type: z.literal('start'),
  ...commandFields,
  ...attachFields,
  stdin: z.enum(['open', 'closed']).optional(),
  encoding: z.enum(['utf8', 'base64']).optional(),
})
export type StartExecFrame = z.infer<typeof StartExecFrame>

export const StartShellFrame = z.object({
  type: z.literal('start'),
  shell_id: ExecId.optional(),
  shell: commandFields.shell,
  argv: commandFields.argv,
  cwd: commandFields.cwd,
  env: commandFields.env,
  detach: z.boolean().optional(),
  cols: dimension.optional(),
  rows: dimension.optional(),
  term: z
    .string()
    .regex(/^[A-Za-z0-9._+-]{1,64}$/)
    .optional(),
  ...attachFields,
  encoding: z.enum(['utf8', 'base64']).optional(),
})
export type StartShellFrame = z.infer<typeof StartShellFrame>

export const StdinFrame = z.object({
  type: z.literal('stdin'),
  data: z.string().optional(),
  encoding: z.enum(['utf8', 'base64']).optional(),
  eof: z.boolean().optional(),
})
export const ResizeFrame = z.object({ type: z.literal('resize'), cols: dimension, rows: dimension, claim: z.boolean().optional() })
export const SignalFrame = z.object({ type: z.literal('signal'), signal: Signal })
export const PingFrame = z.object({
  type: z.literal('ping'),
  id: z.unknown().optional(),
  ts: z.unknown().optional(),
  /** Acknowledged mode: the bytes of each stream that the client has. */
  stdout_offset: z.number().int().nonnegative().optional(),
  stderr_offset: z.number().int().nonnegative().optional(),
})
export const CloseFrame = z.object({ type: z.literal('close') })

export const CLIENT_FRAME_TYPES = ['auth', 'start', 'stdin', 'resize', 'signal', 'ping', 'close'] as const
export type ClientFrameType = (typeof CLIENT_FRAME_TYPES)[number]

export const AuthOkFrame = z.object({
  type: z.literal('auth_ok'),
  session_id: z.string(),
  sandbox_id: z.string(),
  expires_at: z.string(),
  granted_capabilities: z.array(Capability),
})
export type AuthOkFrame = z.infer<typeof AuthOkFrame>

/**
 * Where a stream starts for this socket: `offset` is the first byte that follows, `oldest` the first one still kept. What comes before
 * `end` was there already: of a terminal it is a replay, drawn for the size that `ready` tells.
 */
export const StreamStart = z.object({
  offset: z.number().int(),
  oldest: z.number().int(),
  end: z.number().int().optional(),
  gap: z.object({ from: z.number().int(), to: z.number().int() }).optional(),
})
export type StreamStart = z.infer<typeof StreamStart>

export const ReadyFrame = z.object({
  type: z.literal('ready'),
  exec_id: z.string().optional(),
  shell_id: z.string().optional(),
  pid: z.number().int(),
  attached: z.boolean(),
  stdout: StreamStart,
  stderr: StreamStart,
  /** Bytes of stdin that the process has been given so far: where a reconnecting client goes on. */
  stdin: z.object({ offset: z.number().int() }).optional(),
  size_owner: z.boolean().optional(),
  cols: z.number().int().optional(),
  rows: z.number().int().optional(),
})
export type ReadyFrame = z.infer<typeof ReadyFrame>

const outputFields = {
  data: z.string(),
  /** The first byte of this chunk in its stream. */
  offset: z.number().int(),
  /** Raw length in bytes. */
  bytes: z.number().int(),
  encoding: z.enum(['utf8', 'base64']).optional(),
  lossy: z.boolean().optional(),
}
export const StdoutFrame = z.object({ type: z.literal('stdout'), ...outputFields })
export const StderrFrame = z.object({ type: z.literal('stderr'), ...outputFields })
export const ExitFrame = z.object({ type: z.literal('exit'), ...exitFields })
export type ExitFrame = z.infer<typeof ExitFrame>
export const PongFrame = z.object({
  type: z.literal('pong'),
  id: z.unknown().optional(),
  ts: z.unknown().optional(),
  /** Bytes of stdin that the process has been given so far. */
  stdin_offset: z.number().int().optional(),
})
export const ErrorFrame = z.object({ type: z.literal('error'), error: ErrorEnvelope.shape.error })

export const ServerFrame = z.discriminatedUnion('type', [
  AuthOkFrame,
  ReadyFrame,
  StdoutFrame,
  StderrFrame,
  ExitFrame,
  PongFrame,
  ErrorFrame,
])
export type ServerFrame = z.infer<typeof ServerFrame>

/** Close codes [C-37]; the codes of errors are in `ERRORS`. */
export const CLOSE = {
  done: 1000,
  restart: 1001,
  badType: 1003,
  policy: 1008,
  tooLarge: 1009,
  internal: 1011,
} as const
