import { randomUUID } from 'node:crypto'
import { type ExecResult, isCode, BoxofficeError as SdkError, type Session, SilenceError } from '@boxoffice/client'
import { sleep } from '@boxoffice/kit/sleep'
import type { ExecuteResponse } from 'deepagents'
import { toBoxofficeError } from './errors.ts'

/** The most that the server keeps of a stream [C-32]. */
const MAX_OUTPUT_BYTES = 16 * 1024 * 1024
/** As a command that ran out of time. */
const TIMED_OUT = 124
/** As a command whose end nobody has seen. */
const LOST = 255
/** An attempt that began so long before its silence was alive in between. */
const ALIVE_MS = 30_000

export type ExecuteOptions = {
  /** Seconds. */
  timeout: number
  retryWindowMs: number
  signal: AbortSignal | undefined
  /** Told that the session has ended by itself, so that the next command needs another one. */
  onEnded(): Promise<void>
}

/**
 * Runs a command to its end. A throw rejects the whole run of an agent, so only this throws: a released session, refused credentials,
 * a broker or agent that was away for longer than the retry window, an abort. All else is a result that a model reads (contract 7.1).
 */
export const execute = async (
  session: Pick<Session, 'exec'>,
  command: string,
  { timeout, retryWindowMs, signal, onEnded }: ExecuteOptions,
): Promise<ExecuteResponse> => {
  const execId = randomUUID()
  const until = performance.now() + timeout * 1000
  let silentSince: number | undefined
  for (;;) {
    const began = performance.now()
    try {
      const options = { execId, timeoutSeconds: timeout, maxOutputBytes: MAX_OUTPUT_BYTES, outputKeep: 'head', signal } as const
      // One pipe for both streams keeps them in the order in which they were written.
      return toResponse(await session.exec(`exec 2>&1; ${command}`, options))
    } catch (error) {
      // As many commands run as may. The SDK has waited for as long as it waits for a connection.
      if (isCode(error, 'RATE_LIMITED')) {
        const left = until - performance.now()
        if (left > 0) {
          await sleep(Math.min(left, (error.retryAfter || 1) * 1000), signal)
          continue
        }
        return failure(TIMED_OUT, `the command did not get its turn within ${timeout} s: too many others run in this sandbox`)
      }
      if (isCode(error, 'SESSION_RELEASED') || signal?.aborted) throw toBoxofficeError(error)
      if (isEnded(error)) {
        await onEnded()
        return failure(
          LOST,
          `the sandbox has ended (${error.message}). Whether the command ran is not known. The next command gets a new sandbox`,
        )
      }
      if (isSilence(error)) {
        const now = performance.now()
        if (silentSince === undefined || now - error.silentMs - began > ALIVE_MS) silentSince = now
        if (now - silentSince < retryWindowMs) continue
      }
      // The refusal is of this command (too long, with a NUL), not of the session: a model may try another one.
      if (error instanceof SdkError && !isFatal(error)) return failure(1, `the command was refused: ${error.message}`)
      throw toBoxofficeError(error)
    }
  }
}

const toResponse = (result: ExecResult): ExecuteResponse => ({
  // Stderr has what the shell said of a command that it could not parse.
  output: result.stdout + result.stderr + (result.spawnError === null ? '' : `${result.spawnError.message}\n`),
  exitCode: result.exitCode,
  truncated: result.stdoutTruncated || result.stderrTruncated,
})

const failure = (exitCode: number, message: string): ExecuteResponse => ({ output: `Error: ${message}.\n`, exitCode, truncated: false })

/** The session ended by itself: its lease ran out, or its sandbox was lost. */
export const isEnded = (error: unknown): error is Error =>
  (['SESSION_EXPIRED', 'BINDING_NOT_FOUND', 'SANDBOX_LOST'] as const).some((code) => isCode(error, code))

const FATAL = new Set([
  ...['UNAUTHENTICATED', 'TOKEN_EXPIRED', 'FORBIDDEN', 'CAPABILITY_DENIED'],
  ...['CONNECTION_FAILED', 'BACKEND_UNAVAILABLE', 'SANDBOX_STARTING'],
])

/** Refused credentials, or a way that stayed away for as long as it was tried. */
const isFatal = ({ code }: SdkError): boolean => FATAL.has(code)

/** Nothing came over any connection for 20 s, which the SDK takes for the end of it; the command is joined again by its id. */
const isSilence = (error: unknown): error is SilenceError => error instanceof SilenceError && error.final === true
