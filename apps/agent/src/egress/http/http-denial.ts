import type { ServerResponse } from 'node:http'
import type { EgressDenial } from '../egress-types.ts'

const STATUS: Partial<Record<EgressDenial['code'], readonly [status: number, reason: string]>> = {
  bad_request: [400, 'Bad Request'],
  host_mismatch: [421, 'Misdirected Request'],
  unresolvable: [502, 'Bad Gateway'],
  unreachable: [502, 'Bad Gateway'],
}

const partsOf = (denial: EgressDenial) => {
  const [status, reason] = STATUS[denial.code] ?? [403, 'Forbidden']
  const body = JSON.stringify({ error: { code: 'EGRESS_DENIED', message: `${denial.host}: ${denial.hint}` }, ...denial })
  const headers = {
    'X-Boxoffice-Egress': 'denied',
    'Content-Type': 'application/json',
    'Content-Length': String(Buffer.byteLength(body)),
    Connection: 'close',
  }
  return { status, reason, headers, body }
}

/** The one answer to what is not served: 403 for a denial, 400 and 421 for what cannot be read, 502 for an origin that is not reached. */
export function httpDenial(denial: EgressDenial): string {
  const { status, reason, headers, body } = partsOf(denial)
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
  return [`HTTP/1.1 ${status} ${reason}`, ...lines, '', body].join('\r\n')
}

/** The same, as the response to a request. One that has begun already is broken off. */
export function denyRequest(response: ServerResponse, denial: EgressDenial): void {
  if (response.headersSent) return void response.destroy()
  const { status, reason, headers, body } = partsOf(denial)
  response.writeHead(status, reason, headers)
  response.end(body)
}
