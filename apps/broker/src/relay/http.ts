import type { ClientRequest, IncomingMessage, ServerResponse } from 'node:http'
import { countRead } from '@boxoffice/node-http'
import { BoxofficeError } from '@boxoffice/protocol'
import type { Passage } from './admission.ts'
import { toAgent, toClient } from './headers.ts'
import { finish, hasBody, hasUnread } from './respond.ts'
import { DialFailed, dialing, type Upstream } from './upstream.ts'

export type Exchange = {
  incoming: IncomingMessage
  outgoing: ServerResponse
  passage: Passage
  /** Below the agent's base, with the query. */
  path: string
  requestId: string
  upstream: Upstream
}

/**
 * One request to the agent and its answer back, as streams of bytes that nobody looks into. Rejects while the answer has not begun;
 * after that a failure cuts the client's connection. A client that goes away takes the request to the agent with it.
 */
export async function forward(exchange: Exchange): Promise<void> {
  const { incoming, outgoing } = exchange
  // Gone while it was being admitted.
  if (outgoing.destroyed) return
  const body = wholeBody(incoming)
  const gone = new Gone(outgoing)
  const [request, response] = await dialing(() => send(exchange, body, gone), gone)
  outgoing.writeHead(response.statusCode ?? 502, { ...toClient(response.headers), ...(hasUnread(incoming) ? { connection: 'close' } : {}) })
  response.on('data', (chunk: Buffer) => {
    countRead(chunk.length)
    if (outgoing.write(chunk)) return
    response.pause()
    outgoing.once('drain', () => response.resume())
  })
  response.on('end', () => {
    finish(incoming, outgoing)
    // Answered before the whole body was taken: what is left of it goes nowhere.
    if (!request.writableFinished) request.destroy()
  })
  response.on('close', () => {
    if (!response.complete) outgoing.destroy()
  })
}

/** Follows the client's connection: ends the request to the agent with it, and no new one begins. */
class Gone {
  request: ClientRequest | undefined
  aborted = false

  constructor(outgoing: ServerResponse) {
    outgoing.once('close', () => {
      if (outgoing.writableFinished) return
      this.aborted = true
      this.request?.destroy()
    })
  }
}

/** A body that has come with its head, as those of commands do, needs no stream. Undefined while more is to come. */
function wholeBody(incoming: IncomingMessage): Buffer | null | undefined {
  if (!hasBody(incoming)) return null
  if (!incoming.complete) return undefined
  return incoming.read() as Buffer | null
}

function send(
  { incoming, outgoing, passage, path, requestId, upstream }: Exchange,
  body: Buffer | null | undefined,
  gone: Gone,
): Promise<[ClientRequest, IncomingMessage]> {
  const headers = toAgent(incoming.headers, passage.upstreamToken, requestId)
  const request = upstream.request(passage.agent, { method: incoming.method ?? 'GET', path, headers })
  gone.request = request
  return new Promise((resolve, reject) => {
    let connected = false
    request.once('response', (response) => resolve([request, response]))
    request.on('error', (cause) => reject(connected ? broken(cause) : new DialFailed('no connection', { cause })))
    request.on('continue', () => outgoing.writeContinue())
    const onConnected = (): void => {
      connected = true
      if (body !== undefined) return
      // Not earlier: what has been read from the client cannot be sent a second time.
      incoming.on('data', (chunk: Buffer) => countRead(chunk.length))
      incoming.pipe(request)
      if (incoming.readableLength === 0) request.flushHeaders()
    }
    request.once('socket', (socket) => {
      if (!socket.connecting) onConnected()
      else socket.once('connect', onConnected)
    })
    if (body !== undefined) request.end(body ?? undefined)
  })
}

const broken = (cause: unknown): BoxofficeError =>
  new BoxofficeError('BACKEND_UNAVAILABLE', 'the connection to the agent broke before it answered; repeat a command with its exec_id', {
    retryAfter: 1,
    cause,
  })
