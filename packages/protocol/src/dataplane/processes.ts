import { z } from 'zod'
import { ErrorEnvelope } from '../base/errors.ts'
import { LIMITS } from '../base/limits.ts'
import { EnvironmentVariables, ExitReason, KillCause, SpawnError } from './exec.ts'

/**
 * Managed processes (contract 3.10, 4.5): `POST|GET D/processes`, `GET|DELETE D/processes/{id}`, `WS W/processes/{id}/ws`.
 *
 * The socket carries one text message per line: from the client to stdin (the newline is added), from stdout to the client
 * (without it). It opens only for a credential in the headers or the subprotocols, and only for one socket at a time; the query
 * may say `takeover=true`, and `run=R&stdout_offset=N` to go on at byte N of stdout, which is where the lines that were received end:
 * also when that run has ended meanwhile, for as long as it is known, and whether or not another one has begun.
 * A line that was longer than what is kept for replay (1 MiB) when its reader was lost cannot be had again: `gap` says so.
 * At the end of the process it closes with 1000.
 *
 * Offered as a subprotocol, `mcp` is echoed and changes nothing. With `boxoffice.v1.lines` binary messages carry control
 * frames, one JSON object each, beside the lines:
 *
 *     server  ready {process_id, run, stdout:{offset, gap?}, stdin:{offset}}   first; offsets as in `WS W/exec/ws`
 *     client  auth {token}            renews the token                 server  auth_ok
 *     client  ping {stdout_offset}    what it has received             server  pong {stdin_offset}: bytes that the process has
 *     client  stdin {data}            base64: the rest of a line that was cut off, with its newline
 *     server  error {error}           before a close ≥ 4400
 *
 * Such a client has to report what it has at least every 128 KiB (`ResendBuffer.got` says when): no more than 768 KiB are on the way
 * beyond that, so that what a lost connection takes with it is still kept. For others, what was handed to the network counts.
 */
export const SUBPROTOCOL_MCP = 'mcp'
export const SUBPROTOCOL_LINES = 'boxoffice.v1.lines'

export const PROCESS_LIMITS = {
  /** Running at once in one sandbox [2-35]. */
  running: 64,
  /** Those that have ended are known for so long, and so many of them [2-35]. */
  completed: 256,
  completedKeptSeconds: 300,
  stderrPreviewCharacters: 4000,
  /** One line, and so one message, either way [2-68]. */
  lineBytes: 16 * 1024 * 1024,
} as const

export const ProcessId = z
  .string()
  .regex(
    /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,47}$/,
    'must be 1 to 48 characters of A-Z, a-z, 0-9, _, . and -, and start with none of the last two',
  )

const text = (limit: number) =>
  z
    .string()
    .max(limit)
    .regex(/^[^\0]*$/, 'must not contain NUL')

export const RESTART_POLICIES = ['never', 'on_failure', 'always'] as const

/** `POST D/processes`. The program is run as it is, without a shell. */
export const StartProcessRequest = z.object({
  process_id: ProcessId.default('default'),
  command: text(4096).min(1, 'must not be empty'),
  args: z.array(text(LIMITS.argvBytes)).default([]),
  env: EnvironmentVariables.default({}),
  cwd: text(4096).min(1, 'must not be empty').optional(),
  /** Ends the running one of this id first; without it that is a conflict [2-63]. */
  replace: z.boolean().default(false),
  restart: z.enum(RESTART_POLICIES).default('never'),
  /** How often in all; null: as often as it takes. */
  max_restarts: z.number().int().min(0).nullable().default(null),
})
export type StartProcessRequest = z.input<typeof StartProcessRequest>

/** What is told of one [2-60]: never the values of its environment. */
export const ManagedProcess = z.object({
  process_id: z.string(),
  status: z.enum(['running', 'exited']),
  command: z.string(),
  args: z.array(z.string()),
  cwd: z.string(),
  env_keys: z.array(z.string()),
  attached: z.boolean(),
  started_at: z.string(),
  exited_at: z.string().nullable(),
  /** Of the last run; null while it runs, and where nobody saw the end. */
  exit_code: z.number().int().nullable(),
  signal: z.string().nullable(),
  reason: ExitReason.nullable(),
  kill_cause: KillCause.nullable(),
  spawn_error: SpawnError.nullable(),
  /** The last of what it wrote to stderr; of the last run. */
  stderr_preview: z.string(),
  restarts: z.number().int(),
  /** It has ended and is about to be started again. */
  restarting: z.boolean(),
  restart: z.enum(RESTART_POLICIES),
  max_restarts: z.number().int().nullable(),
})
export type ManagedProcess = z.infer<typeof ManagedProcess>

export const ListProcessesResponse = z.object({ processes: z.array(ManagedProcess) })

/** Control frames of a line socket, as binary messages with `boxoffice.v1.lines`. */
export const LinesServerFrame = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('ready'),
    process_id: z.string(),
    /** Another one after each restart; offsets count from its start. */
    run: z.string(),
    stdout: z.object({
      offset: z.number().int(),
      gap: z.object({ from: z.number().int(), to: z.number().int() }).optional(),
    }),
    stdin: z.object({ offset: z.number().int() }),
  }),
  z.object({ type: z.literal('auth_ok') }),
  z.object({ type: z.literal('pong'), stdin_offset: z.number().int() }),
  ErrorEnvelope.pick({ error: true }).extend({ type: z.literal('error') }),
])
export type LinesServerFrame = z.infer<typeof LinesServerFrame>

export const LinesClientFrame = z.discriminatedUnion('type', [
  z.object({ type: z.literal('auth'), token: z.string() }),
  z.object({ type: z.literal('ping'), stdout_offset: z.number().int().nonnegative() }),
  z.object({ type: z.literal('stdin'), data: z.base64() }),
])
export type LinesClientFrame = z.infer<typeof LinesClientFrame>
