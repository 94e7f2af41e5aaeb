import type { IncomingMessage, ServerResponse } from 'node:http'
import type { BoxofficeError } from '@boxoffice/protocol'

/** How long, and for how many bytes, a client may go on sending a body that was refused before its connection is cut. */
const LINGER_MS = 1000
const LINGER_BYTES = 64 * 1024 * 1024

export const sendJson = (outgoing: ServerResponse, status: number, value: unknown): void => {
  const body = JSON.stringify(value)
  outgoing.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) })
  outgoing.end(body)
}

export const sendNothing = (outgoing: ServerResponse, status: number): void => {
  outgoing.writeHead(status)
  outgoing.end()
}

export type FailureOptions = {
  requestId: string
  /** Readers of the aliases look for these at top level as well (contract 7.4). */
  alias?: boolean
}

/** The envelope of a refusal [4-160]. An answer that has begun cannot be taken back: its connection is cut instead. */
export const sendError = (incoming: IncomingMessage, outgoing: ServerResponse, error: BoxofficeError, options: FailureOptions): void => {
  if (outgoing.headersSent) return void outgoing.destroy()
  const envelope = error.envelope(options.requestId)
  const body = JSON.stringify(options.alias ? { ...envelope, error_type: envelope.error.code, message: error.message } : envelope)
  outgoing.setHeader('Content-Type', 'application/json')
  outgoing.setHeader('Content-Length', Buffer.byteLength(body))
  if (error.status === 401) outgoing.setHeader('WWW-Authenticate', 'Bearer')
  if (error.retryable) outgoing.setHeader('Retry-After', error.retryAfter ?? 1)
  if (incoming.complete || !hasBody(incoming)) {
    outgoing.writeHead(error.status)
    outgoing.end(body)
    return
  }
  // The client may still be sending: closing now would make its kernel drop the answer. It gets the whole answer and a moment.
  outgoing.setHeader('Connection', 'close')
  outgoing.writeHead(error.status)
  outgoing.write(body)
  linger(incoming, () => outgoing.end())
}

const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers['transfer-encoding'] !== undefined || (headers['content-length'] !== undefined && headers['content-length'] !== '0')

const linger = (incoming: IncomingMessage, done: () => void): void => {
  let bytes = 0
  const finish = (): void => {
    clearTimeout(timer)
    incoming.off('data', onData)
    incoming.off('end', finish)
    incoming.off('close', finish)
    done()
  }
  const onData = (chunk: Buffer): void => {
    bytes += chunk.length
    if (bytes > LINGER_BYTES) finish()
  }
  const timer = setTimeout(finish, LINGER_MS)
  incoming.removeAllListeners('data')
  incoming.unpipe()
  incoming.on('data', onData)
  incoming.on('end', finish)
  incoming.on('close', finish)
  incoming.resume()
}
