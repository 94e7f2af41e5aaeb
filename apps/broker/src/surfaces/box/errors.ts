import { BoxofficeError, ERRORS, type ErrorCode } from '@boxoffice/protocol'

/** What a refusal is called on the Box surface [2-42]. */
export type BoxRefusal = { status: number; code: string; message: string }

const NAMES: Partial<Record<ErrorCode, Omit<BoxRefusal, 'message'>>> = {
  UNAUTHENTICATED: { status: 401, code: 'unauthorized' },
  TOKEN_EXPIRED: { status: 401, code: 'unauthorized' },
  FORBIDDEN: { status: 403, code: 'forbidden' },
  CAPABILITY_DENIED: { status: 403, code: 'forbidden' },
  BINDING_NOT_FOUND: { status: 404, code: 'session_not_found' },
  SESSION_EXPIRED: { status: 404, code: 'session_not_found' },
  SESSION_RELEASED: { status: 404, code: 'session_not_found' },
  PROCESS_NOT_FOUND: { status: 404, code: 'managed_process_not_found' },
  NOT_FOUND: { status: 404, code: 'not_found' },
  METHOD_NOT_ALLOWED: { status: 405, code: 'method_not_allowed' },
  BINDING_CONFLICT: { status: 409, code: 'session_conflict' },
  PROCESS_CONFLICT: { status: 409, code: 'managed_process_conflict' },
  PROCESS_NOT_RUNNING: { status: 409, code: 'managed_process_conflict' },
  ALREADY_ATTACHED: { status: 409, code: 'managed_process_conflict' },
  TAKEN_OVER: { status: 409, code: 'managed_process_conflict' },
  UNSUPPORTED: { status: 501, code: 'unsupported' },
  SANDBOX_STARTING: { status: 503, code: 'backend_unavailable' },
  BACKEND_UNAVAILABLE: { status: 503, code: 'backend_unavailable' },
  SANDBOX_LOST: { status: 503, code: 'backend_unavailable' },
  AGENT_FULL: { status: 503, code: 'capacity' },
  QUOTA_EXCEEDED: { status: 503, code: 'capacity' },
}

/** Any failure by its name here; a quota that is full is `capacity`, a rate that was exceeded is not [0-50]. */
export function toBoxRefusal(error: BoxofficeError): BoxRefusal {
  const { code, message, details } = error
  if (code === 'RATE_LIMITED') {
    const full = String(details?.limit ?? '').startsWith('max_')
    return full ? { status: 503, code: 'capacity', message } : { status: 429, code: 'rate_limited', message }
  }
  const named = NAMES[code]
  if (named !== undefined) return { ...named, message }
  // What else the caller did wrong, sizes and types included.
  if (ERRORS[code].status < 500) return { status: 400, code: 'validation_error', message }
  return { status: 500, code: 'internal_error', message }
}

/** 400 for one field of a request. */
export const invalid = (field: string, message: string): BoxofficeError =>
  new BoxofficeError('INVALID_REQUEST', message, { details: { field } })
