import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { type Refusal, rawAnswer, sendRefusal } from '@boxoffice/node-http'
import type { BoxofficeError } from '@boxoffice/protocol'

export const sendJson = (outgoing: ServerResponse, status: number, value: unknown): void => {
  const body = JSON.stringify(value)
  outgoing.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) })
  outgoing.end(body)
}

export const sendNothing = (outgoing: ServerResponse, status: number): void => {
  outgoing.writeHead(status)
  outgoing.end()
}

/** Refuses a request. */
export const refuse = (incoming: IncomingMessage, outgoing: ServerResponse, refusal: Omit<Refusal, 'headers'>): void =>
  sendRefusal(incoming, outgoing, { ...refusal, headers: refusalHeaders(refusal.error) })

/** A refusal before the upgrade is an HTTP answer with the usual envelope. */
export const refuseUpgrade = (socket: Duplex, error: BoxofficeError, requestId: string): void =>
  rawAnswer(socket, error.status, { ...refusalHeaders(error), 'X-Request-Id': requestId }, JSON.stringify(error.envelope(requestId)))

const refusalHeaders = (error: BoxofficeError): Record<string, string> => ({
  'Content-Type': 'application/json',
  ...(error.status === 401 ? { 'WWW-Authenticate': 'Bearer' } : {}),
  ...(error.retryable ? { 'Retry-After': String(error.retryAfter ?? 1) } : {}),
})
