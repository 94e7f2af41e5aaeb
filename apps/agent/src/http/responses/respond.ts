import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { type Refusal, rawResponse, refusalBody, sendRefusal } from '@boxoffice/node-http'
import type { BoxofficeError } from '@boxoffice/protocol'
import { largeOutputs, sendLargeJson } from './large-response.ts'
import { ANSWER_STALL_MS, cutStalledClient } from './stalled-client.ts'

/** What the kernel takes at once needs no watch. */
const LARGE_BYTES = 64 * 1024

export const sendJson = (outgoing: ServerResponse, status: number, value: unknown): void => {
  const body = JSON.stringify(value)
  const bytes = Buffer.byteLength(body)
  outgoing.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': bytes })
  if (bytes > LARGE_BYTES) cutStalledClient(outgoing, ANSWER_STALL_MS)
  outgoing.end(body)
}

export const sendNothing = (outgoing: ServerResponse, status: number): void => {
  outgoing.writeHead(status)
  outgoing.end()
}

/** Sends a result, in pieces where its output is large. */
export const sendResult = (outgoing: ServerResponse, status: number, result: object): void | Promise<void> => {
  const outputs = largeOutputs(result)
  if (outputs.length === 0) return sendJson(outgoing, status, result)
  return sendLargeJson(outgoing, { status, headers: {}, value: result, outputs })
}

/** Refuses a request. */
export const refuse = (incoming: IncomingMessage, outgoing: ServerResponse, refusal: Omit<Refusal, 'headers'>): void => {
  const { error, requestId, alias } = refusal
  const headers = refusalHeaders(error)
  const outputs = largeOutputs(error.details?.result)
  if (outputs.length === 0 || outgoing.headersSent) return sendRefusal(incoming, outgoing, { ...refusal, headers })
  const value = refusalBody(error, requestId, alias)
  sendLargeJson(outgoing, { status: error.status, headers, value, outputs }).catch(() => outgoing.destroy())
}

/** A refusal before the upgrade is an HTTP answer with the usual envelope. */
export const refuseUpgrade = (socket: Duplex, error: BoxofficeError, requestId: string, alias = false): void => {
  const headers = { ...refusalHeaders(error), 'X-Request-Id': requestId }
  rawResponse(socket, error.status, headers, JSON.stringify(refusalBody(error, requestId, alias)))
}

const refusalHeaders = (error: BoxofficeError): Record<string, string> => ({
  'Content-Type': 'application/json',
  ...(error.status === 401 ? { 'WWW-Authenticate': 'Bearer' } : {}),
  ...(error.retryable || error.retryAfter !== undefined ? { 'Retry-After': String(error.retryAfter ?? 1) } : {}),
})
