import type { BoxofficeError, ErrorNaming } from '@boxoffice/protocol'

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

/** A refusal on the wire: the envelope and its headers. */
export const refusalResponse = (
  error: BoxofficeError,
  requestId: string,
  naming: ErrorNaming,
  extra: Record<string, string> = {},
): Response =>
  new Response(JSON.stringify(error.envelope(requestId, naming)), {
    status: error.status,
    headers: { ...refusalHeaders(error, requestId), ...extra },
  })
