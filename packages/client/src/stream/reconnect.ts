import { CLOSE, type ErrorCode } from '@boxoffice/protocol'
import { BoxofficeError, ConnectionError, isCode } from '../base/errors.ts'
import { backoffMs } from '../network/backoff.ts'
import { type Endpoint, isAgentAway } from '../network/endpoints.ts'

/** How a connection ended without the process's exit. */
export type Drop = {
  code: number
  reason: string
  /** The last `error` frame, if there was one. */
  error?: BoxofficeError | undefined
  url: string
  /** Not even a connection was made. */
  unopened?: boolean
  /** Nobody answered in time, not even with a refusal. */
  silent?: boolean
}

export type DropHistory = {
  /** Failed attempts since the last connection that got as far as `ready`. */
  attempt: number
  /** Since that connection dropped, or since the first attempt; in ms. */
  failingForMs: number
  windowMs: number
  /** True when the refused token was a new one already. */
  renewed: boolean
}

export type NextStep = { type: 'fail'; error: BoxofficeError } | { type: 'renew' } | { type: 'reconnect'; delayMs: number }

/** Whether a drop says that this endpoint of the sandbox leads nowhere. */
export const leadsNowhere = (endpoint: Endpoint, { code, error }: Drop): boolean =>
  error === undefined ? code === 1006 : endpoint.mode === 'relay' && isAgentAway(error)

/** What close codes mean when no `error` frame says it [C-37]. */
const MEANING: Record<number, { code: ErrorCode; message: string }> = {
  [CLOSE.badType]: { code: 'UNSUPPORTED_MEDIA_TYPE', message: 'the server does not take this kind of message' },
  [CLOSE.policy]: { code: 'FORBIDDEN', message: 'the server does not accept connections from this origin' },
  [CLOSE.tooLarge]: { code: 'PAYLOAD_TOO_LARGE', message: 'a message was too large' },
  4400: { code: 'INVALID_REQUEST', message: 'the server refused a frame' },
  4401: { code: 'UNAUTHENTICATED', message: 'the token was refused' },
  4403: { code: 'FORBIDDEN', message: 'access was denied or taken away' },
  4404: { code: 'EXEC_NOT_FOUND', message: 'there is no such process; its record may have run out' },
  4408: { code: 'TIMEOUT', message: 'the reader was too slow' },
  4409: { code: 'TAKEN_OVER', message: 'another client has taken this process over' },
  4410: { code: 'SESSION_RELEASED', message: 'the session has ended' },
  4423: { code: 'SANDBOX_STARTING', message: 'the sandbox is starting' },
  4429: { code: 'RATE_LIMITED', message: 'too many at once' },
  4503: { code: 'BACKEND_UNAVAILABLE', message: 'the sandbox or its host is gone' },
}

/** Errors after which the same process may still be reached: the server says so, or only the reader was late. */
const PASSING: readonly ErrorCode[] = ['SANDBOX_STARTING', 'RATE_LIMITED', 'BACKEND_UNAVAILABLE', 'TIMEOUT']

/** Decides what follows a drop. Pure: no clock, no I/O. */
export const afterDrop = (drop: Drop, history: DropHistory, random: () => number = Math.random): NextStep => {
  const error = drop.code === CLOSE.restart ? undefined : (drop.error ?? errorOfClose(drop.code))
  if (error === undefined) {
    // A planned restart asks to come back at once; if that fails, with the same patience as any other drop.
    const atOnce = drop.code === CLOSE.restart && history.attempt === 0
    return reconnect(atOnce ? 0 : backoffMs(history.attempt, random), history, lost(drop))
  }
  if (isCode(error, 'SANDBOX_LOST')) return { type: 'fail', error }
  if (isCode(error, 'TOKEN_EXPIRED') || isCode(error, 'UNAUTHENTICATED'))
    return history.renewed ? { type: 'fail', error } : { type: 'renew' }
  if (!PASSING.some((code) => isCode(error, code))) return { type: 'fail', error }
  const asked = (error.retryAfter ?? 0) * 1000
  return reconnect(Math.max(asked, backoffMs(history.attempt, random)), history, error)
}

const reconnect = (delayMs: number, { failingForMs, windowMs }: DropHistory, error: BoxofficeError): NextStep =>
  failingForMs + delayMs > windowMs ? { type: 'fail', error } : { type: 'reconnect', delayMs }

const errorOfClose = (code: number): BoxofficeError | undefined => {
  const meaning = MEANING[code]
  return meaning && new BoxofficeError(meaning.code, `${meaning.message} (closed with ${code})`, { details: { close_code: code } })
}

const lost = ({ url, code, reason, unopened }: Drop): ConnectionError => {
  return new ConnectionError(
    unopened
      ? `${new URL(url).origin} cannot be reached (no connection was made${reason && `: ${reason}`})`
      : `${new URL(url).origin}: the connection was lost and did not come back (closed with ${code}${reason && `: ${reason}`})`,
  )
}
