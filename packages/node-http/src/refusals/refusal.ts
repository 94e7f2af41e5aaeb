import type { IncomingMessage, ServerResponse } from 'node:http'
import type { BoxofficeError } from '@boxoffice/protocol'
import { finish, hasUnread } from '../bodies/unread-body.ts'

export type Refusal = {
  error: BoxofficeError
  requestId: string
  /** Readers of the aliases look for code and message at top level as well (contract 7.4). */
  alias: boolean
  headers: Record<string, string>
}

/** Answers with the envelope of a refusal [4-160]. A response that has begun cannot be taken back: its connection is cut instead. */
export function sendRefusal(incoming: IncomingMessage, outgoing: ServerResponse, { error, requestId, alias, headers }: Refusal): void {
  if (outgoing.headersSent) return void outgoing.destroy()
  const body = JSON.stringify(refusalBody(error, requestId, alias))
  outgoing.writeHead(error.status, {
    ...headers,
    'Content-Length': Buffer.byteLength(body),
    ...(hasUnread(incoming) ? { Connection: 'close' } : {}),
  })
  outgoing.write(body)
  finish(incoming, outgoing)
}

export function refusalBody(error: BoxofficeError, requestId: string, alias: boolean): object {
  const envelope = error.envelope(requestId)
  return alias ? { ...envelope, error_type: envelope.error.code, message: error.message } : envelope
}
