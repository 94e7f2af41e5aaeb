import type { Duplex } from 'node:stream'
import { allowMessageBytes, hintReads, markAuthenticated, terminateSoon } from '@boxoffice/node-http'
import { BoxofficeError, CLOSE, executeError, fromUnknown, LIMITS, SUBPROTOCOL_LINES, TIMES } from '@boxoffice/protocol'
import { WebSocket } from 'ws'
import type { Log } from '../host/log.ts'
import { unauthenticated } from '../tokens/credentials.ts'
import type { ReadBuffer } from './http1/read-buffers.ts'
import { MessageQueue } from './queue.ts'
import { type AuthorizedSession, holderOf } from './session-authorizer.ts'
import type { AgentWebSocket } from './ws/agent-websocket.ts'
import { authTokenOf, mayBeAuth, readEarlyFrame } from './ws/client-frames.ts'
import { clientFrame, closePayload, FrameCutter, OPCODE, type Piece } from './ws/frames.ts'

export type RelayedSocketOptions = {
  ws: WebSocket
  /** The connection below `ws`. */
  socket: Duplex
  requestId: string
  log: Log
  /** Text messages are lines of a process, which nobody looks into; `auth` frames come as binary messages. */
  lines: boolean
  /** Errors are told in the frames of `execute/ws`. */
  alias: boolean
  /** Checks a client's token; `renews` on a socket that has been admitted. */
  authorize(token: string, renews?: AuthorizedSession['claims']): Promise<AuthorizedSession>
  /** Opens the agent's side for who has been admitted. */
  open(authorized: AuthorizedSession, signal: AbortSignal): Promise<AgentWebSocket>
}

/** Towards a client that reads slowly the agent is not read above this. Small: what is held here, a drop loses [C-35]. */
const HIGH_WATER_BYTES = 256 * 1024
/** Pings that may come before `auth` [C-68]. */
const PINGS_BEFORE_AUTH = 20
const MISSED_PINGS = 2
/** How long the other side may take to answer a close. */
const CLOSE_WITHIN_MS = 2000
/** The agent ends a reader that stands still, and its word has to wait for that reader; a client that never reads is not waited for. */
const STALLED_MS = (TIMES.stalledReader + 45) * 1000
const MAX_REASON_BYTES = 120
const UNUSUAL_CLOSE = new Set([1004, 1005, 1006, 1015])

/**
 * A client's WebSocket and its counterpart at the agent. What the agent sends passes as it came; what the client sends is read as
 * far as it takes to exchange the token of `auth` frames. Each side has its own pings; each is read as fast as the other takes.
 */
export class RelayedSocket {
  readonly #options: RelayedSocketOptions
  readonly #ws: WebSocket
  readonly #client: Duplex
  readonly #aborter = new AbortController()
  readonly #messages: MessageQueue
  readonly #heartbeat: NodeJS.Timeout
  readonly #cutter: FrameCutter
  #authLate: NodeJS.Timeout | undefined
  #stalled: NodeJS.Timeout | undefined
  #claims: AuthorizedSession['claims'] | undefined
  #agent: Duplex | undefined
  /** Nothing more is sent to the client but the close that is under way. */
  #closing = false
  #earlyPings = 0
  #missed = { client: 0, agent: 0 }
  #holds = { messages: false, agent: false }

  constructor(options: RelayedSocketOptions) {
    this.#options = options
    this.#ws = options.ws
    this.#client = options.socket
    this.#cutter = new FrameCutter({
      data: (pieces) => this.#toClient(pieces),
      control: (opcode, payload) => this.#onControl(opcode, payload),
    })
    this.#messages = new MessageQueue(
      (paused) => this.#hold('messages', paused),
      (thrown) => this.fail(fromUnknown(thrown)),
    )
    this.#heartbeat = setInterval(() => this.#beat(), TIMES.pingEvery * 1000)
    this.#ws.on('message', (data, isBinary) => this.#messages.add(() => this.#onMessage(data as Buffer, isBinary)))
    this.#ws.on('pong', () => {
      this.#missed.client = 0
    })
    this.#ws.on('error', () => {
      if (this.#claims === undefined) terminateSoon(this.#ws)
    })
    this.#ws.on('close', (code, reason) => this.#onClientClosed(code, reason))
    hintReads(options.socket)
    this.#client.on('drain', () => this.#onClientDrained())
  }

  /** For a client that was admitted by its upgrade. */
  begin(claims: AuthorizedSession['claims'], link: AgentWebSocket): void {
    this.#claims = claims
    this.#connect(link)
  }

  /** For a client that has yet to say who it is [4-56]. */
  awaitAuth(): void {
    this.#authLate = setTimeout(
      () => this.fail(unauthenticated(`no auth frame within ${TIMES.authenticateWithin} s`)),
      TIMES.authenticateWithin * 1000,
    )
  }

  /** Says why, then closes with the code of it [C-37]. */
  fail(error: BoxofficeError): void {
    if (this.#closing) return
    if (error.code === 'INTERNAL')
      this.#options.log.error({ err: error.cause ?? error, request_id: this.#options.requestId }, 'a relayed socket failed')
    const { error: body } = error.envelope(this.#options.requestId)
    this.#tell(this.#options.alias ? executeError(error) : { type: 'error', error: body })
    this.close(error.closeCode, error.code)
  }

  /** Among the lines of a process a text message would be one more of them: they have their control frames, or the close alone. */
  #tell(frame: object): void {
    if (this.#ws.readyState !== WebSocket.OPEN) return
    if (!this.#options.lines) this.#ws.send(JSON.stringify(frame))
    else if (this.#ws.protocol === SUBPROTOCOL_LINES) this.#ws.send(Buffer.from(JSON.stringify(frame)), { binary: true })
  }

  close(code: number, reason = ''): void {
    if (this.#closing) return
    this.#closing = true
    this.#messages.stop()
    this.#ws.resume()
    this.#ws.close(code, reason.slice(0, MAX_REASON_BYTES))
    if (this.#claims === undefined) terminateSoon(this.#ws)
    this.#leaveAgent(code, reason)
  }

  /** The broker goes down; the client may come back at once. */
  shutdown(): void {
    this.close(CLOSE.restart)
  }

  terminate(): void {
    this.#closing = true
    this.#ws.terminate()
    this.#agent?.destroy()
  }

  // From the client.

  #onMessage(data: Buffer, isBinary: boolean): void | Promise<void> {
    if (this.#closing) return
    if (this.#agent === undefined) return this.#beforeAuth(data, isBinary)
    if (isBinary === this.#options.lines && mayBeAuth(data)) {
      const token = authTokenOf(data)
      if (token !== undefined) return this.#renew(token, isBinary)
    }
    this.#toAgent(isBinary ? OPCODE.binary : OPCODE.text, data)
  }

  #beforeAuth(data: Buffer, isBinary: boolean): void | Promise<void> {
    if (data.length > LIMITS.messageBytesBeforeAuth) return this.close(CLOSE.tooLarge)
    if (isBinary && !this.#ws.protocol.endsWith('.binary'))
      return this.close(CLOSE.badType, 'binary frames need the subprotocol boxoffice.v1.binary')
    const frame = isBinary ? ({ type: 'other' } as const) : readEarlyFrame(data)
    if (frame.type === 'auth') return this.#authenticate(frame.token)
    if (frame.type === 'other') throw unauthenticated('the first frame must be auth')
    if (++this.#earlyPings > PINGS_BEFORE_AUTH) throw new BoxofficeError('RATE_LIMITED', 'too many pings before auth', { retryAfter: 1 })
    this.#ws.send(JSON.stringify({ ...frame, type: 'pong' }))
  }

  async #authenticate(token: string): Promise<void> {
    const { authorize, open } = this.#options
    // It has come in time; how long the agent takes to answer is not the client's doing.
    clearTimeout(this.#authLate)
    const authorized = await authorize(token)
    allowMessageBytes(this.#ws, LIMITS.messageBytes)
    markAuthenticated(this.#client, holderOf(authorized))
    const link = await open(authorized, this.#aborter.signal)
    this.#claims = authorized.claims
    // The agent answers the broker's token with the `auth_ok` that the client waits for.
    if (this.#closing) link.connection.destroy()
    else this.#connect(link)
  }

  async #renew(token: string, isBinary: boolean): Promise<void> {
    const { upstreamToken } = await this.#options.authorize(token, this.#claims)
    this.#toAgent(isBinary ? OPCODE.binary : OPCODE.text, Buffer.from(JSON.stringify({ type: 'auth', token: upstreamToken })))
  }

  #toAgent(opcode: number, payload: Buffer): void {
    const agent = this.#agent
    if (agent === undefined || agent.destroyed) return
    if (!agent.write(clientFrame(opcode, payload)) && agent.writableLength > HIGH_WATER_BYTES) this.#hold('agent', true)
  }

  #hold(why: 'messages' | 'agent', held: boolean): void {
    this.#holds[why] = held
    if ((this.#holds.messages || this.#holds.agent) && !this.#closing) this.#ws.pause()
    else this.#ws.resume()
  }

  #onClientClosed(code: number, reason: Buffer): void {
    this.#closing = true
    this.#aborter.abort()
    this.#messages.stop()
    clearTimeout(this.#authLate)
    clearTimeout(this.#stalled)
    clearInterval(this.#heartbeat)
    // Without a close frame it is a drop, and the agent is to see one.
    if (code === 1006) this.#agent?.destroy()
    else this.#leaveAgent(code, reason.toString())
  }

  // From the agent.

  #connect({ connection, head }: AgentWebSocket): void {
    const { socket } = connection
    this.#agent = socket
    connection.reader = {
      bytes: (chunk, buffer) => this.#onAgentData(chunk, buffer),
      closed: () => this.fail(agentGone()),
    }
    socket.on('drain', () => this.#hold('agent', false))
    if (head.length > 0) this.#onAgentData(head)
    if (socket.destroyed) this.fail(agentGone())
    else if (this.#client.writableLength <= HIGH_WATER_BYTES) socket.resume()
  }

  #onAgentData(chunk: Buffer, buffer?: ReadBuffer): void {
    try {
      this.#cutter.push(chunk, buffer)
    } catch (thrown) {
      this.#options.log.warn({ err: thrown, request_id: this.#options.requestId }, 'an agent sent what is no frame')
      this.#agent?.destroy()
    }
  }

  #toClient(pieces: readonly Piece[]): void {
    if (this.#closing || this.#ws.readyState !== WebSocket.OPEN) return
    if (pieces.length > 1) this.#client.cork()
    for (const { bytes, release } of pieces) this.#client.write(bytes, release)
    if (pieces.length > 1) this.#client.uncork()
    if (this.#client.writableLength <= HIGH_WATER_BYTES) return
    this.#agent?.pause()
    this.#stalled ??= setTimeout(() => this.terminate(), STALLED_MS)
  }

  #onClientDrained(): void {
    clearTimeout(this.#stalled)
    this.#stalled = undefined
    this.#agent?.resume()
  }

  #onControl(opcode: number, payload: Buffer): void {
    if (opcode === OPCODE.ping) this.#toAgent(OPCODE.pong, payload)
    else if (opcode === OPCODE.pong) this.#missed.agent = 0
    else this.#onAgentCloses(payload)
  }

  /** The agent's code and reason are the client's. */
  #onAgentCloses(payload: Buffer): void {
    const code = payload.length < 2 ? undefined : payload.readUInt16BE()
    const reason = payload.subarray(2).toString()
    if (!this.#closing) {
      this.#closing = true
      this.#messages.stop()
      this.#ws.resume()
      if (code === undefined || UNUSUAL_CLOSE.has(code)) this.#ws.close()
      else this.#ws.close(code, reason)
    }
    this.#leaveAgent(code, reason)
  }

  /** Says goodbye to the agent, or answers its own; it closes the connection, or loses it. */
  #leaveAgent(code: number | undefined, reason: string): void {
    const agent = this.#agent
    if (agent === undefined || agent.writableEnded || agent.destroyed) return
    agent.end(clientFrame(OPCODE.close, closePayload(code === undefined || UNUSUAL_CLOSE.has(code) ? undefined : code, reason)))
    agent.resume()
    const late = setTimeout(() => agent.destroy(), CLOSE_WITHIN_MS)
    agent.once('close', () => clearTimeout(late))
  }

  // Both.

  /** A side that has missed two pings is gone [C-68]. One that is not read cannot be heard, and one that does not read gets no ping. */
  #beat(): void {
    if (!this.#ws.isPaused && this.#client.writableLength === 0) {
      if (this.#missed.client >= MISSED_PINGS) return this.terminate()
      this.#missed.client++
      this.#ws.ping()
    }
    const agent = this.#agent
    if (agent === undefined || agent.isPaused() || agent.writableLength > 0 || agent.writableEnded) return
    if (this.#missed.agent >= MISSED_PINGS) return void agent.destroy()
    this.#missed.agent++
    agent.write(clientFrame(OPCODE.ping, Buffer.alloc(0)))
  }
}

const agentGone = (): BoxofficeError =>
  new BoxofficeError('BACKEND_UNAVAILABLE', 'the connection to the agent was lost; attach again at the last offset', { retryAfter: 1 })
