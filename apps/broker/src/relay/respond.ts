import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { type Refusal, rawResponse, refusalBody, sendRefusal } from '@boxoffice/node-http'
import type { BoxofficeError } from '@boxoffice/protocol'
import { refusalHeaders } from '../http/errors.ts'

/** Refuses a request. */
export function refuse(incoming: IncomingMessage, outgoing: ServerResponse, refusal: Omit<Refusal, 'headers'>): void {
  sendRefusal(incoming, outgoing, { ...refusal, headers: refusalHeaders(refusal.error, refusal.requestId) })
}

/** A refusal before the upgrade is an HTTP answer with the usual envelope. */
export function refuseUpgrade(socket: Duplex, error: BoxofficeError, requestId: string, alias = false): void {
  rawResponse(socket, error.status, refusalHeaders(error, requestId), JSON.stringify(refusalBody(error, requestId, alias)))
}
