import type { BoxofficeError, ErrorNaming } from '@boxoffice/protocol'

const DEFAULT_RETRY_AFTER = 2

/** A refusal on the wire: the envelope, and the headers that belong to its status [4-160, C-59]. */
export function refusalResponse(
  error: BoxofficeError,
  requestId: string,
  naming: ErrorNaming,
  extra: Record<string, string> = {},
): Response {
  const headers: Record<string, string> = {
    'content-type': 'application/json',
    'x-request-id': requestId,
    'cache-control': 'no-store',
    ...extra,
  }
  if (error.status === 401) headers['www-authenticate'] = 'Bearer'
  if (error.retryable) headers['retry-after'] = String(error.retryAfter ?? DEFAULT_RETRY_AFTER)
  return new Response(JSON.stringify(error.envelope(requestId, naming)), { status: error.status, headers })
}
