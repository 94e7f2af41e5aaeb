import { ERRORS, type ErrorCode, type ErrorEnvelope, errorCodeFrom } from '@boxoffice/protocol'
import { type ClientErrorCode, type ErrorFamily, familyOf } from './error-families.ts'
import type { ExecResult } from './exec-result.ts'

export type ErrorFields = {
  status?: number | undefined
  retryable?: boolean
  requestId?: string | undefined
  aliases?: readonly string[] | undefined
  details?: Record<string, unknown> | undefined
  /** Whole seconds. */
  retryAfter?: number | undefined
  cause?: unknown
}

/** Every refusal and failure. `code` is stable and may be one that this version does not know (a newer server). */
export class BoxofficeError extends Error {
  override readonly name: string = 'BoxofficeError'
  readonly code: ErrorCode | ClientErrorCode | (string & {})
  readonly status: number | undefined
  readonly retryable: boolean
  readonly requestId: string | undefined
  readonly aliases: readonly string[]
  readonly details: Record<string, unknown>
  readonly retryAfter: number | undefined

  constructor(code: BoxofficeError['code'], message: string, fields: ErrorFields = {}) {
    super(message, fields.cause === undefined ? undefined : { cause: fields.cause })
    this.code = code
    this.status = fields.status
    this.retryable = fields.retryable ?? false
    this.requestId = fields.requestId
    this.aliases = fields.aliases ?? []
    this.details = fields.details ?? {}
    this.retryAfter = fields.retryAfter
  }

  /** What a caller does about it; see `ErrorFamily`. */
  get family(): ErrorFamily {
    return familyOf(this.code, this.status)
  }
}

/** Nobody answered. `cause` holds what the runtime said. */
export class ConnectionError extends BoxofficeError {
  override readonly name: string = 'ConnectionError'

  constructor(message: string, cause?: unknown) {
    super('CONNECTION_FAILED', message, { retryable: true, cause })
  }
}

/** A connection over which nothing comes any more, although nobody has closed it: `requestTimeoutMs` has passed without a sign of life. */
export class SilenceError extends ConnectionError {
  override readonly name = 'SilenceError'
  /** Whether it is of no use to try again; `second` for the first one of two that may be. */
  readonly final: boolean | 'second'
  /** Nothing was answered on other connections either. */
  readonly certain: boolean
  /** How long ago the last sign of life was. */
  readonly silentMs: number

  constructor(silentMs: number, { final, certain }: Pick<SilenceError, 'final' | 'certain'>) {
    const what = certain ? 'no sign of life' : 'nothing has come of the answer'
    const seconds = silentMs < 10_000 ? Math.round(silentMs / 100) / 10 : Math.round(silentMs / 1000)
    super(`the connection is silent: ${what} for ${seconds} s`)
    this.final = final
    this.certain = certain
    this.silentMs = silentMs
  }
}

/** Bytes `from` (included) to `to` (excluded) of a stream are lost: they were overwritten before this client came (back). */
export class GapError extends BoxofficeError {
  override readonly name = 'GapError'
  readonly stream: 'stdout' | 'stderr'
  readonly from: number
  readonly to: number

  constructor(stream: 'stdout' | 'stderr', from: number, to: number) {
    super('OUTPUT_GAP', `${stream}: bytes ${from} to ${to} are lost; read on to get what follows`, { details: { stream, from, to } })
    this.stream = stream
    this.from = from
    this.to = to
  }
}

/** A command that did not exit with 0, from `exec.orThrow`. It carries every field of the result. */
export class ExecError extends Error implements ExecResult {
  override readonly name = 'ExecError'
  declare readonly execId: string
  declare readonly stdout: string
  declare readonly stderr: string
  declare readonly exitCode: number
  declare readonly signal: ExecResult['signal']
  declare readonly reason: ExecResult['reason']
  declare readonly timedOut: boolean
  declare readonly oomKilled: boolean
  declare readonly spawnError: ExecResult['spawnError']
  declare readonly killCause: ExecResult['killCause']
  declare readonly durationMs: number
  declare readonly stdoutBytes: number
  declare readonly stderrBytes: number
  declare readonly stdoutTruncated: boolean
  declare readonly stderrTruncated: boolean
  declare readonly lossy: boolean
  declare readonly timeoutSeconds: number

  constructor(command: string, result: ExecResult) {
    super(describeFailure(command, result))
    Object.assign(this, result)
  }
}

const describeFailure = (command: string, result: ExecResult): string => {
  const shown = command.length > 80 ? `${command.slice(0, 79)}…` : command
  const lastLine = result.stderr.trimEnd().split('\n').at(-1)?.slice(0, 200)
  const how =
    result.spawnError !== null
      ? `could not start: ${result.spawnError.message}`
      : result.timedOut
        ? `timed out after ${result.timeoutSeconds} s`
        : result.signal !== null
          ? `ended by ${result.signal}${result.oomKilled ? ' (out of memory)' : ''}`
          : `exited with ${result.exitCode}`
  return lastLine && result.spawnError === null ? `\`${shown}\` ${how}: ${lastLine}` : `\`${shown}\` ${how}`
}

/** From the `error` member of an envelope or of an error frame. */
export const errorFromWire = (error: ErrorEnvelope['error'], fields: ErrorFields = {}): BoxofficeError => {
  const known = errorCodeFrom(error.code)
  return new BoxofficeError(error.code, error.message, {
    ...fields,
    status: fields.status ?? (known === undefined ? undefined : ERRORS[known].status),
    retryable: error.retryable,
    requestId: error.request_id,
    aliases: error.aliases,
    details: error.details,
  })
}

/** True for an error that goes by this name, under either naming of the contract (`SESSION_NOT_FOUND`, `BINDING_NOT_FOUND`). */
export function isCode(error: BoxofficeError, code: ErrorCode | ClientErrorCode): boolean
export function isCode(error: unknown, code: ErrorCode | ClientErrorCode): error is BoxofficeError
export function isCode(error: unknown, code: ErrorCode | ClientErrorCode): boolean {
  return error instanceof BoxofficeError && (error.code === code || error.aliases.includes(code) || errorCodeFrom(error.code) === code)
}

/** True for a `BoxofficeError` of this family: `isFamily(error, 'not_found')`. */
export const isFamily = (error: unknown, family: ErrorFamily): error is BoxofficeError =>
  error instanceof BoxofficeError && error.family === family
