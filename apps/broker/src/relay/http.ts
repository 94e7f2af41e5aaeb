import type { IncomingMessage, ServerResponse } from 'node:http'
import { detachRequest, finish, hasBody, hasUnread, hintRead } from '@boxoffice/node-http'
import { BoxofficeError } from '@boxoffice/protocol'
import type { Connections, PooledConnection } from './http1/connections.ts'
import { requestHead, toClient } from './http1/headers.ts'
import type { ReadBuffer } from './http1/read-buffers.ts'
import { ResponseReader } from './http1/response.ts'
import { type ResponseHead, saysClose } from './http1/response-head.ts'
import { dialing } from './http1/upstream.ts'
import type { AuthorizedSession } from './session-authorizer.ts'
import { canSplice, UploadSplice, type UploadSpliceOptions } from './upload-splice.ts'

export type Exchange = {
  incoming: IncomingMessage
  outgoing: ServerResponse
  authorized: AuthorizedSession
  /** Below the agent's base, with the query. */
  path: string
  requestId: string
  connections: Connections
  /** How the rest of a large body is spliced past this process; undefined: not at all. */
  splice?: UploadSpliceOptions | undefined
}

/** Towards a client that reads slowly the agent is not read above this. */
const HIGH_WATER_BYTES = 256 * 1024
/** Up to this a body goes out in one piece with its head. */
const WITH_HEAD_BYTES = 64 * 1024
/** An agent that took no more of a body has said why, or its connection has ended, within this. */
const REASON_WITHIN_MS = 5000

/**
 * One request to the agent and its response back, as bytes that nobody looks into beyond their framing. Rejects while the response has
 * not begun; after that a failure cuts the client's connection. A client that goes away takes the request to the agent with it.
 */
export async function forward(exchange: Exchange): Promise<void> {
  const { outgoing, authorized, connections } = exchange
  // The client left while it was being admitted.
  if (outgoing.destroyed) return
  const client = new ClientAbort(outgoing)
  const pooled = connections.kept(authorized.agent) ?? (await dialing(() => connections.dial(authorized.agent), client))
  if (client.aborted) return pooled.connection.destroy()
  await new Promise<void>((resolve, reject) => {
    client.forwarding = new Forwarding(exchange, pooled, { resolve, reject })
    client.forwarding.send()
  })
}

/** Follows the client's connection: ends the request to the agent with it, and no new one begins. */
class ClientAbort {
  forwarding: Forwarding | undefined
  aborted = false

  constructor(outgoing: ServerResponse) {
    outgoing.once('close', () => {
      if (outgoing.writableFinished) return
      this.aborted = true
      this.forwarding?.abort()
    })
  }
}

/** A request that has a connection. */
class Forwarding {
  readonly #exchange: Exchange
  readonly #pooled: PooledConnection
  readonly #responded: { resolve: () => void; reject: (error: BoxofficeError) => void }
  readonly #response: ResponseReader
  /** The request is at the agent as a whole. */
  #sent = false
  #ended = false
  #stopSending: (() => void) | undefined
  /** What is left of the body goes by it. */
  #splice: UploadSplice | undefined

  constructor(exchange: Exchange, pooled: PooledConnection, responded: { resolve: () => void; reject: (error: BoxofficeError) => void }) {
    this.#exchange = exchange
    this.#pooled = pooled
    this.#responded = responded
    this.#response = new ResponseReader(exchange.incoming.method ?? 'GET', {
      head: (head, rest, buffer) => this.#onHead(head, rest, buffer),
      piece: (part, buffer) => this.#onPiece(part, buffer),
      end: () => this.#onEnd(),
      failed: (cause) => this.#onFailed(cause),
      provisional: (status) => {
        if (status === 100) exchange.outgoing.writeContinue()
      },
    })
    pooled.connection.reader = this.#response
  }

  send(): void {
    const { incoming, path, authorized, requestId } = this.#exchange
    const { socket } = this.#pooled.connection
    const { basePath, authority } = this.#pooled.endpoint
    const line = `${incoming.method} ${basePath}${path} HTTP/1.1\r\nhost: ${authority}\r\n`
    // Before HTTP/1.1 there is no `Expect` (RFC 9110, 10.1.1), so none reaches the agent.
    const isOld = incoming.httpVersion !== '1.1'
    const head = `${line}${requestHead(incoming.headers, authorized.upstreamToken, requestId, (name) => isOld && name === 'expect')}\r\n`
    const chunked = incoming.headers['transfer-encoding'] !== undefined
    const whole = wholeBody(incoming)
    if (whole !== undefined) {
      this.#sent = true
      socket.write(whole === null ? head : head + whole.toString('latin1'), 'latin1')
      return
    }
    socket.write(head, 'latin1')
    this.#stream(chunked)
  }

  /** The client is client. */
  abort(): void {
    this.#splice?.kill()
    if (!this.#ended) this.#pooled.connection.destroy()
  }

  #stream(chunked: boolean): void {
    const { incoming } = this.#exchange
    const { socket } = this.#pooled.connection
    let offered = this.#exchange.splice
    let rest = chunked ? 0 : Number(incoming.headers['content-length'])
    const drained = (): void => {
      if (this.#splice === undefined) incoming.resume()
    }
    const onData = (chunk: Buffer): void => {
      hintRead(chunk.length)
      writeBody(socket, chunk, chunked)
      rest -= chunk.length
      if (offered !== undefined && canSplice(incoming, socket, rest)) {
        const options = offered
        offered = undefined
        void this.#spliceRest(options, rest).then((isWorthAnotherTry) => {
          if (isWorthAnotherTry) offered = options
        })
        return
      }
      if (socket.writableLength > HIGH_WATER_BYTES) incoming.pause()
    }
    const stop = (): void => {
      incoming.off('data', onData).off('end', onEnd)
      socket.off('drain', drained)
    }
    const onEnd = (): void => {
      stop()
      this.#sent = true
      if (chunked) socket.write('0\r\n\r\n', 'latin1')
    }
    incoming.on('data', onData).on('end', onEnd)
    socket.on('drain', drained)
    this.#stopSending = stop
  }

  /** True when it has not begun, and may at another piece of the body. */
  async #spliceRest(options: UploadSpliceOptions, rest: number): Promise<boolean> {
    const { incoming } = this.#exchange
    const { socket } = this.#pooled.connection
    const detached = await detachRequest(incoming)
    if (detached === undefined) return true
    if (this.#ended || this.#response.head !== undefined || socket.destroyed) {
      detached.resume()
      return false
    }
    const splice = new UploadSplice(options, { detached, agent: socket, rest })
    this.#splice = splice
    const outcome = await splice.outcome()
    if (outcome === 'all') {
      this.#stopSending?.()
      this.#sent = true
      return false
    }
    if (outcome === 'nothing') this.#splice = undefined
    // Bytes between are lost, so no more of them follow.
    else this.#stopSending?.()
    // What is not wanted any more is read, too: many clients read a response only when they have sent everything.
    detached.resume()
    if (outcome === 'nothing' || this.#ended) return false
    if (outcome === 'source') detached.socket.destroy()
    else if (outcome === 'sink') setTimeout(() => this.#failUnanswered(), REASON_WITHIN_MS).unref()
    else this.#onFailed(new Error(`the body was not spliced: ${outcome}`))
    return false
  }

  #onHead(head: ResponseHead, whole: Buffer | undefined, buffer: ReadBuffer): void {
    const { incoming, outgoing, requestId } = this.#exchange
    const headers = toClient(head, requestId)
    // Where the next request of the client begins, nobody knows who has not read the body.
    const unread = this.#splice !== undefined || hasUnread(incoming)
    if (unread) headers.push('connection', 'close')
    outgoing.writeHead(head.status, headers)
    this.#responded.resolve()
    if (whole === undefined) return
    this.#ended = true
    this.#leave(head)
    if (unread || whole.length > WITH_HEAD_BYTES) {
      this.#onPiece(whole, buffer)
      this.#finish()
      return
    }
    // As a string it goes out in one piece with the head.
    if (whole.length === 0) outgoing.end()
    else outgoing.end(whole.toString('latin1'), 'latin1')
  }

  #onPiece(part: Buffer, buffer: ReadBuffer): void {
    const { outgoing } = this.#exchange
    buffer.hold()
    outgoing.write(part, buffer.release)
    const { socket } = this.#pooled.connection
    if (outgoing.writableLength <= HIGH_WATER_BYTES || this.#ended || socket.isPaused()) return
    socket.pause()
    outgoing.once('drain', () => {
      if (!this.#ended) socket.resume()
    })
  }

  #onEnd(): void {
    this.#ended = true
    this.#leave(this.#response.head as ResponseHead)
    this.#finish()
  }

  #finish(): void {
    const { incoming, outgoing } = this.#exchange
    if (this.#splice === undefined) return finish(incoming, outgoing)
    void this.#splice.settle().then((outcome) => {
      if (outcome === 'all') outgoing.end()
      else finish(incoming, outgoing)
    })
  }

  /** Answered before the whole body was taken: what is left of it goes nowhere. */
  #leave(head: ResponseHead): void {
    this.#stopSending?.()
    const { connection: used, giveBack } = this.#pooled
    const reusable = this.#sent && this.#splice === undefined && head.framing.type !== 'close' && !saysClose(head)
    if (reusable) giveBack(head.keepAliveSeconds)
    else used.destroy()
  }

  #failUnanswered(): void {
    if (this.#response.head === undefined) this.#onFailed(new Error('the agent took no more'))
  }

  #onFailed(cause: unknown): void {
    if (this.#ended) return
    this.#ended = true
    this.#stopSending?.()
    this.#splice?.kill()
    this.#pooled.connection.destroy()
    if (this.#response.head === undefined) this.#responded.reject(broken(cause))
    else this.#exchange.outgoing.destroy()
  }
}

/** A body that has come with its head, as those of commands do, needs no stream; null for none. Undefined while more is to come. */
function wholeBody(incoming: IncomingMessage): Buffer | null | undefined {
  if (!hasBody(incoming)) return null
  const length = Number(incoming.headers['content-length'])
  // Node says `complete` only after we were asked, also of a body that is all there.
  if (incoming.headers['transfer-encoding'] !== undefined || !(length <= WITH_HEAD_BYTES) || incoming.readableLength !== length)
    return undefined
  const body = incoming.read() as Buffer
  incoming.resume()
  return body
}

function writeBody(socket: PooledConnection['connection']['socket'], chunk: Buffer, chunked: boolean): void {
  if (!chunked) return void socket.write(chunk)
  socket.cork()
  socket.write(`${chunk.length.toString(16)}\r\n`, 'latin1')
  socket.write(chunk)
  socket.write('\r\n', 'latin1')
  socket.uncork()
}

const broken = (cause: unknown): BoxofficeError =>
  new BoxofficeError('BACKEND_UNAVAILABLE', 'the connection to the agent broke before it answered; repeat a command with its exec_id', {
    retryAfter: 1,
    cause,
  })
