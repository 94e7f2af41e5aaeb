import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import type { BoxofficeError } from '@boxoffice/protocol'
import { refusalHeaders } from '../http/errors.ts'

/** How long, and for how many bytes, a client may go on sending a body that nobody wants before its connection is cut. */
const LINGER_MS = 1000
const LINGER_BYTES = 64 * 1024 * 1024

export type RefusalOptions = {
  requestId: string
  /** Readers of the aliases look for these at top level as well (contract 7.4). */
  alias: boolean
}

/** The envelope of a refusal. An answer that has begun cannot be taken back: its connection is cut instead. */
export function refuse(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  error: BoxofficeError,
  { requestId, alias }: RefusalOptions,
): void {
  if (outgoing.headersSent) return void outgoing.destroy()
  const envelope = error.envelope(requestId)
  const body = JSON.stringify(alias ? { ...envelope, error_type: envelope.error.code, message: error.message } : envelope)
  const unread = hasUnread(incoming)
  outgoing.writeHead(error.status, {
    ...refusalHeaders(error, requestId),
    'content-length': Buffer.byteLength(body),
    ...(unread ? { connection: 'close' } : {}),
  })
  outgoing.write(body)
  finish(incoming, outgoing)
}

/**
 * Ends an answer. Where the client is still sending, closing now would make its kernel drop what it has not read: it gets the
 * answer and a moment.
 */
export function finish(incoming: IncomingMessage, outgoing: ServerResponse): void {
  if (!hasUnread(incoming)) return void outgoing.end()
  let bytes = 0
  const done = (): void => {
    clearTimeout(timer)
    incoming.off('data', onData).off('end', done).off('close', done)
    outgoing.end()
  }
  const onData = (chunk: Buffer): void => {
    bytes += chunk.length
    if (bytes > LINGER_BYTES) done()
  }
  const timer = setTimeout(done, LINGER_MS)
  incoming.unpipe()
  incoming.on('data', onData).on('end', done).on('close', done)
  incoming.resume()
}

export const hasUnread = (incoming: IncomingMessage): boolean => !incoming.complete && hasBody(incoming)

export const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers['transfer-encoding'] !== undefined || (headers['content-length'] !== undefined && headers['content-length'] !== '0')

/** A refusal before the upgrade is an HTTP answer with the usual envelope. */
export function refuseUpgrade(socket: Duplex, error: BoxofficeError, requestId: string): void {
  if (socket.destroyed) return
  socket.on('error', () => {})
  const body = JSON.stringify(error.envelope(requestId))
  const headers = { ...refusalHeaders(error, requestId), connection: 'close', 'content-length': String(Buffer.byteLength(body)) }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
  socket.end([`HTTP/1.1 ${error.status} ${STATUS_CODES[error.status] ?? ''}`, ...lines, '', body].join('\r\n'))
}
