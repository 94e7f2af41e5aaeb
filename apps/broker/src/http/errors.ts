import type { BoxofficeError, ErrorNaming } from '@boxoffice/protocol'
import type { Log } from '../host/log.ts'
import type { Metrics } from './metrics.ts'

const DEFAULT_RETRY_AFTER = 2

/** The headers that belong to a refusal: id and status [4-160, C-59]. */
export function refusalHeaders(error: BoxofficeError, requestId: string): Record<string, string> {
  const headers: Record<string, string> = {
    'content-type': 'application/json',
    'x-request-id': requestId,
    'cache-control': 'no-store',
  }
  if (error.status === 401) headers['www-authenticate'] = 'Bearer'
  if (error.retryable) headers['retry-after'] = String(error.retryAfter ?? DEFAULT_RETRY_AFTER)
  return headers
}

/** What an API tells of a refusal. */
export type Rendered = { status: number; body: object }

/** A refusal as the broker's own API tells of it. */
export const envelopeOf = (error: BoxofficeError, requestId: string, naming: ErrorNaming = 'full'): Rendered => ({
  status: error.status,
  body: error.envelope(requestId, naming),
})

/** A refusal on the wire, with its headers. */
export const refusalResponse = (
  error: BoxofficeError,
  requestId: string,
  { status, body }: Rendered = envelopeOf(error, requestId),
  extra: Record<string, string> = {},
): Response => new Response(JSON.stringify(body), { status, headers: { ...refusalHeaders(error, requestId), ...extra } })

export type RefusalSinks = { metrics: Metrics; log: Log }
export type ReportedRefusal = { error: BoxofficeError; requestId: string; rendered: Rendered; headers?: Record<string, string> | undefined }

/** Counts a refusal, logs it where the caller is not to blame, and makes its response. */
export function reportRefusal({ error, requestId, rendered, headers }: ReportedRefusal, { metrics, log }: RefusalSinks): Response {
  metrics.refused(error.code)
  if (rendered.status >= 500)
    log[rendered.status === 500 ? 'error' : 'warn']({ request_id: requestId, code: error.code, err: error }, error.message)
  return refusalResponse(error, requestId, rendered, headers)
}
