import { deferred } from '@boxoffice/kit/deferred'
import { sleep } from '@boxoffice/kit/sleep'
import type { ReadyFrame } from '@boxoffice/protocol'
import { BoxofficeError, isCode, SilenceError } from '../base/errors.ts'
import { type Exit, toExit } from '../base/exec-result.ts'
import { anySignal } from '../base/signals.ts'
import type { Dataplane } from '../dataplane/dataplane.ts'
import { endRemotely } from '../dataplane/end-remotely.ts'
import { type Connection, openConnection } from './connection.ts'
import { Inbox } from './inbox.ts'
import { Outbox } from './outbox.ts'
import { afterDrop, type Drop, leadsNowhere } from './reconnect.ts'

/** Consumed output that is not yet acknowledged: after so many bytes at once, else within a second. */
const ACK_BYTES = 128 * 1024
const ACK_WITHIN_MS = 1_000
/** How soon to ask again where stdin stands, while writing waits for the answer. */
const ASK_AGAIN_MS = { first: 5, most: 250 }
const STDIN_ASK_BYTES = 64 * 1024

/** The most that a first connection waits for somebody to answer; a dropped one has the whole reconnect window. */
const FIRST_CONNECTION_WINDOW_MS = 5_000

export type Target = {
  route: '/exec/ws' | '/shell/ws'
  /** Id of the process, chosen here: a start that is repeated with it attaches instead of running twice. */
  id: string
  /** The first `start` frame, complete but for offsets. */
  start: Record<string, unknown>
  /** What every later `start` frame holds beside the id and the offsets. */
  reattach: Record<string, unknown>
  /** Where output begins, when this client was not there from the start. */
  from?: { stdout?: Beginning | undefined; stderr?: Beginning | undefined } | undefined
  /** The first connection has the whole reconnect window too, unless the network is silent. */
  patient?: boolean | undefined
}

/** Where output begins: at an offset, with the first byte that is still kept, or with what comes from now on. */
export type Beginning = number | 'oldest' | 'end'

type Ended = ({ exit: Exit; drop?: never } | { exit?: never; drop: Drop }) & { reachedReady: boolean }

/**
 * A client's hold on one process, over as many connections as it takes. It owns its sockets and timers, and ends with the
 * process's exit, with `detach`, with its signal, or with an error that coming back cannot mend.
 */
export class Attachment {
  readonly id: string
  readonly stdout: Inbox
  readonly stderr: Inbox
  readonly stdin: Outbox
  /** The first `ready`; rejects when there was none. A process that could not be spawned has an exit and no `ready`. */
  readonly ready: Promise<ReadyFrame>
  readonly exit: Promise<Exit>
  /** Called after each `ready`, the first one included. */
  onReady: ((frame: ReadyFrame) => void) | undefined

  readonly #target: Target
  readonly #dataplane: Dataplane
  readonly #life = new AbortController()
  #connection: Connection | undefined
  #wasReady = false
  #hasAsked = false
  #waiting: Record<string, unknown>[] = []
  #acknowledged = { stdout: 0, stderr: 0 }
  #askedAt = 0
  #askAgainMs = ASK_AGAIN_MS.first
  #ackTimer: ReturnType<typeof setTimeout> | undefined
  #askTimer: ReturnType<typeof setTimeout> | undefined
  #renewTimer: ReturnType<typeof setTimeout> | undefined
  #resolveReady!: (frame: ReadyFrame) => void

  constructor(dataplane: Dataplane, target: Target, signal?: AbortSignal) {
    this.#dataplane = dataplane
    this.#target = target
    this.id = target.id
    this.stdout = new Inbox('stdout', () => this.#onConsumed())
    this.stderr = new Inbox('stderr', () => this.#onConsumed())
    this.stdin = new Outbox(() => this.#onStdinSent())
    // The server refuses it as well, in a frame that comes too late for whoever has written.
    if (target.reattach.mode === 'viewer') this.stdin.close(new BoxofficeError('CAPABILITY_DENIED', `${target.id}: a viewer reads only`))
    const ready = deferred<ReadyFrame>()
    this.ready = ready.promise
    this.#resolveReady = ready.resolve
    this.exit = this.#run(anySignal(signal, dataplane.signal))
    this.exit.catch(ready.reject)
    ready.promise.catch(() => {})
  }

  /** Sends a control frame now, or as soon as there is a connection again. */
  send(frame: Record<string, unknown>): void {
    if (this.#life.signal.aborted) return
    if (this.#connection !== undefined) this.#connection.send(frame)
    else this.#waiting.push(frame)
  }

  /** Leaves the process. `exit` rejects with `DETACHED`. */
  detach(): void {
    this.#life.abort(new BoxofficeError('DETACHED', `this client has left ${this.id}`))
  }

  async #run(signal: AbortSignal | undefined): Promise<Exit> {
    const aborted = () => {
      // Who has left the process ends it no more, while the connection still closes.
      if (this.#life.signal.aborted) return
      // Asks for the process's end before leaving it; were this lost, the server's disconnect grace would end it.
      if (this.#canEnd) endRemotely(this.#dataplane, this.id)
      else this.#connection?.send({ type: 'signal', signal: 'TERM' })
      this.#connection?.send({ type: 'close' })
      this.#life.abort(signal?.reason)
    }
    if (signal?.aborted) aborted()
    signal?.addEventListener('abort', aborted, { once: true })
    try {
      const exit = await this.#untilExit()
      this.stdout.complete(exit.stdoutBytes)
      this.stderr.complete(exit.stderrBytes)
      this.stdin.close(new BoxofficeError('STDIN_CLOSED', `the process has ended (${exit.reason})`))
      return exit
    } catch (error) {
      this.stdout.fail(error)
      this.stderr.fail(error)
      this.stdin.close(error)
      throw error
    } finally {
      signal?.removeEventListener('abort', aborted)
      this.#life.abort()
    }
  }

  /** Whether a request may end the process: a command of this client's that may run by now. */
  get #canEnd(): boolean {
    const { route, reattach } = this.#target
    return route === '/exec/ws' && reattach.mode !== 'viewer' && this.#hasAsked && !this.#dataplane.signal?.aborted
  }

  async #untilExit(): Promise<Exit> {
    let attempt = 0
    let renewed = false
    let failingSince = performance.now()
    let refused: string | undefined
    let fellBack = false
    for (;;) {
      this.#life.signal.throwIfAborted()
      const endpoint = this.#dataplane.endpoints.current
      const { token, exit, drop, reachedReady } = await this.#attempt(refused)
      if (exit !== undefined) return exit
      this.#life.signal.throwIfAborted()
      refused = undefined
      if (reachedReady) {
        attempt = 0
        renewed = false
        failingSince = performance.now()
      } else if (!fellBack && endpoint.mode !== 'relay' && this.#dataplane.endpoints.current.mode === 'relay') {
        // Another endpoint has a window of its own.
        fellBack = true
        failingSince = performance.now()
      }
      const { reconnectWindowMs } = this.#dataplane
      const step = afterDrop(drop, {
        attempt: attempt++,
        failingForMs: performance.now() - failingSince,
        windowMs:
          this.#wasReady || (this.#target.patient === true && drop.silent !== true) || isCode(drop.error, 'RATE_LIMITED')
            ? reconnectWindowMs
            : Math.min(reconnectWindowMs, FIRST_CONNECTION_WINDOW_MS),
        renewed,
      })
      if (step.type === 'fail') throw step.error
      if (step.type === 'reconnect') await sleep(step.delayMs, this.#life.signal)
      if (step.type === 'renew') {
        renewed = true
        refused = token
      }
    }
  }

  /** One token and one connection, to its end. A broker that does not answer counts as a drop like any other. */
  async #attempt(refused: string | undefined): Promise<Ended & { token?: string }> {
    const { token: tokens } = this.#dataplane
    let token: string
    try {
      token = await (refused === undefined ? tokens.current() : tokens.renew(refused))
    } catch (error) {
      if (!isCode(error, 'CONNECTION_FAILED')) throw error
      const url = this.#dataplane.endpoints.current.httpBaseUrl
      return { drop: { code: 1006, reason: error.message, url, silent: error instanceof SilenceError }, reachedReady: false }
    }
    const endpoint = this.#dataplane.endpoints.current
    const ended = await this.#connect(token)
    if (ended.drop !== undefined && !ended.reachedReady && leadsNowhere(endpoint, ended.drop))
      await this.#dataplane.endpoints.failed(endpoint, ended.drop.unopened === true || endpoint.mode === 'relay')
    return { token, ...ended }
  }

  /** One connection, to its end. */
  #connect(token: string): Promise<Ended> {
    const { promise, resolve } = deferred<Ended>()
    let reachedReady = false
    this.#hasAsked = true
    const endpoint = this.#dataplane.endpoints.current
    const leave = () => connection.close()
    const connection = openConnection({
      WebSocket: this.#dataplane.WebSocket,
      url: endpoint.wsBaseUrl + this.#target.route,
      token,
      openWithinMs: this.#dataplane.requestTimeoutMs,
      start: this.#startFrame(),
      handlers: {
        ready: (frame, ready) => {
          reachedReady = true
          this.#dataplane.endpoints.worked(endpoint)
          this.#onConnected(frame, ready)
        },
        output: (stream, bytes) => this[stream].push(bytes),
        pong: (stdinOffset) => this.#onPong(stdinOffset),
        ended: (end) => {
          this.#life.signal.removeEventListener('abort', leave)
          this.#onDisconnected()
          resolve('exit' in end ? { exit: toExit(end.exit), reachedReady } : { drop: end.drop, reachedReady })
        },
      },
    })
    this.#life.signal.addEventListener('abort', leave, { once: true })
    if (this.#life.signal.aborted) leave()
    return promise
  }

  /** After the first `ready` only ever an attach: were the record gone, starting again would run the command twice. */
  #startFrame(): Record<string, unknown> {
    const { id, start, reattach, from } = this.#target
    const stdout = this.stdout.received ?? offsetOf(from?.stdout)
    const stderr = this.stderr.received ?? offsetOf(from?.stderr)
    const offsets = { stdout_offset: stdout, stderr_offset: stderr, ack: true }
    return this.#wasReady ? { type: 'start', attach: id, ...reattach, ...offsets } : { type: 'start', ...start, ...offsets }
  }

  #onConnected(frame: ReadyFrame, connection: Connection): void {
    const { from } = this.#target
    this.#wasReady = true
    this.stdout.beginAt(frame.stdout.offset, from?.stdout ?? 0)
    this.stderr.beginAt(frame.stderr.offset, from?.stderr ?? 0)
    this.#connection = connection
    this.stdin.connect((message) => connection.sendBytes(message), frame.stdin?.offset)
    for (const waiting of this.#waiting.splice(0)) connection.send(waiting)
    this.#acknowledge()
    this.#renewLater()
    this.#resolveReady(frame)
    this.onReady?.(frame)
  }

  #onDisconnected(): void {
    this.#connection = undefined
    this.stdin.disconnect()
    clearTimeout(this.#ackTimer)
    clearTimeout(this.#askTimer)
    clearTimeout(this.#renewTimer)
    this.#ackTimer = this.#askTimer = this.#renewTimer = undefined
  }

  #onConsumed(): void {
    const unacknowledged = Math.max(this.stdout.consumed - this.#acknowledged.stdout, this.stderr.consumed - this.#acknowledged.stderr)
    if (unacknowledged >= ACK_BYTES) this.#acknowledge()
    else this.#acknowledgeLater()
  }

  #onStdinSent(): void {
    if (this.stdin.sent - this.#askedAt >= STDIN_ASK_BYTES || this.stdin.blocked) this.#acknowledge()
    else this.#acknowledgeLater()
  }

  #onPong(stdinOffset: number | undefined): void {
    if (stdinOffset === undefined && !this.stdin.blocked) return
    const before = this.stdin.unconfirmed
    if (stdinOffset !== undefined) this.stdin.confirm(stdinOffset)
    this.#askAgainMs = this.stdin.unconfirmed < before ? ASK_AGAIN_MS.first : Math.min(ASK_AGAIN_MS.most, this.#askAgainMs * 2)
    if (this.stdin.blocked) this.#askTimer ??= setTimeout(() => this.#acknowledge(), this.#askAgainMs)
    else if (this.stdin.unconfirmed > 0) this.#acknowledgeLater()
  }

  #acknowledgeLater(): void {
    if (this.#connection !== undefined) this.#ackTimer ??= setTimeout(() => this.#acknowledge(), ACK_WITHIN_MS)
  }

  /** Tells what was consumed, and asks where stdin stands. */
  #acknowledge(): void {
    clearTimeout(this.#ackTimer)
    clearTimeout(this.#askTimer)
    this.#ackTimer = this.#askTimer = undefined
    if (this.#connection === undefined) return
    const { consumed: stdout } = this.stdout
    const { consumed: stderr } = this.stderr
    this.#acknowledged = { stdout, stderr }
    this.#askedAt = this.stdin.sent
    this.#connection.send({ type: 'ping', stdout_offset: stdout, stderr_offset: stderr })
  }

  /** Keeps an open connection in date with a fresh token; without the broker it goes on trying until the server closes. */
  #renewLater(waitMs = this.#dataplane.token.renewInMs()): void {
    clearTimeout(this.#renewTimer)
    this.#renewTimer = setTimeout(
      () => {
        this.#dataplane.token.current().then(
          (token) => {
            if (this.#connection === undefined) return
            this.#connection.send({ type: 'auth', token })
            this.#renewLater(Math.max(1_000, this.#dataplane.token.renewInMs()))
          },
          (error: unknown) => {
            if (this.#connection !== undefined && isCode(error, 'CONNECTION_FAILED')) this.#renewLater(2_000)
          },
        )
      },
      Math.min(waitMs, 2 ** 31 - 1),
    )
  }
}

const offsetOf = (from: Beginning | undefined): number | 'end' => (from === 'oldest' ? 0 : (from ?? 0))
