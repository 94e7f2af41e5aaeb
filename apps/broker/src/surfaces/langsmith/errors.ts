import { type BoxofficeError, type ErrorCode, errorCodeFrom } from '@boxoffice/protocol'
import type { Rendered } from '../../http/errors.ts'

/** What LangSmith's clients know a refusal by: its status and the name of its type. */
type Shown = readonly [status: number, type: string]

const COMMON: Partial<Record<ErrorCode, Shown>> = {
  UNAUTHENTICATED: [401, 'Unauthorized'],
  FORBIDDEN: [403, 'Forbidden'],
  CAPABILITY_DENIED: [403, 'PermissionDenied'],
  PERMISSION_DENIED: [403, 'PermissionDenied'],
  READ_ONLY: [403, 'PermissionDenied'],
  BINDING_NOT_FOUND: [404, 'ResourceNotFound'],
  SESSION_RELEASED: [404, 'ResourceNotFound'],
  SESSION_EXPIRED: [404, 'ResourceNotFound'],
  NOT_FOUND: [404, 'ResourceNotFound'],
  FILE_NOT_FOUND: [404, 'FileNotFound'],
  INVALID_PATH: [400, 'InvalidPath'],
  IS_DIRECTORY: [400, 'ReadError'],
  NOT_A_FILE: [400, 'ReadError'],
  BINDING_CONFLICT: [409, 'Conflict'],
  RATE_LIMITED: [429, 'QuotaExceeded'],
  UNSUPPORTED: [501, 'NotImplemented'],
  QUOTA_EXCEEDED: [507, 'WriteError'],
}

/** What the routes of boxes tell: their client waits for a box, and learns that none could be made. */
const OF_BOXES: Partial<Record<ErrorCode, Shown>> = {
  SANDBOX_STARTING: [408, 'Timeout'],
  BACKEND_UNAVAILABLE: [503, 'Unschedulable'],
  AGENT_FULL: [503, 'Unschedulable'],
  SANDBOX_LOST: [503, 'Unschedulable'],
}

/** What the dataplane of a box tells. */
const OF_DATAPLANE: Partial<Record<ErrorCode, Shown>> = {
  SANDBOX_STARTING: [400, 'NotReady'],
  BACKEND_UNAVAILABLE: [502, 'ConnectionError'],
  AGENT_FULL: [502, 'ConnectionError'],
  SANDBOX_LOST: [502, 'ConnectionError'],
}

const VALIDATION_STATUS = 422

const renderBy =
  (table: Partial<Record<ErrorCode, Shown>>) =>
  ({ code, message, status, details }: BoxofficeError): Rendered => {
    if (code === 'INVALID_REQUEST') {
      const field = typeof details?.field === 'string' ? details.field.split('.') : []
      return { status: VALIDATION_STATUS, body: { detail: [{ type: 'value_error', loc: ['body', ...field], msg: message }] } }
    }
    const [shown, type] = table[code] ?? COMMON[code] ?? [status, nameOf(code)]
    return { status: shown, body: { detail: { error: type, message } } }
  }

/** Refusals of the routes of boxes, as `{"detail": …}`. */
export const renderOfBoxes = renderBy(OF_BOXES)
/** Refusals of a box's dataplane. */
export const renderOfDataplane = renderBy(OF_DATAPLANE)

/** `PAYLOAD_TOO_LARGE` as `PayloadTooLarge`. */
const nameOf = (code: string): string =>
  (errorCodeFrom(code) ?? 'INTERNAL')
    .toLowerCase()
    .split('_')
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join('')
