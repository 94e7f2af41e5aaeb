import type { BoxofficeError, ErrorCode } from '@boxoffice/protocol'
import type { Rendered } from '../../http/errors.ts'

/** Where n8n's client knows another status: it takes 404 for a sandbox that has ended, asks again after 503, and gives up after 410. */
const STATUS: Partial<Record<ErrorCode, number>> = {
  SESSION_RELEASED: 404,
  SESSION_EXPIRED: 404,
  SANDBOX_STARTING: 503,
  RANGE_NOT_SATISFIABLE: 410,
}

/** A refusal as n8n's client reads it: `{"error": message, "code": status}`. */
export const render = ({ code, message, status }: BoxofficeError): Rendered => {
  const shown = STATUS[code] ?? status
  return { status: shown, body: { error: message, code: shown } }
}
