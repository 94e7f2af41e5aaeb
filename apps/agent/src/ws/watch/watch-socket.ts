import {
  BoxofficeError,
  CLOSE,
  fromUnknown,
  type SessionTokenClaims,
  TIMES,
  WatchClientFrame,
  type WatchServerFrame,
} from '@boxoffice/protocol'
import type { WebSocket } from 'ws'
import type { Authenticator } from '../../auth/auth.ts'
import type { WatchSink } from '../../files/watch.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import type { WatchLine } from '../../supervisor/payloads.ts'
import { authOk } from '../session/auth-ok.ts'
import { SocketSession, type SocketTraffic } from '../session/socket-session.ts'
import type { OpenedWatch } from './watch-upgrade.ts'

export type WatchSocketOptions = {
  ws: WebSocket
  opened: OpenedWatch
  sandbox: Sandbox
  claims: SessionTokenClaims
  requestId: string
  auth: Authenticator
  /** Unix seconds by the broker's clock. */
  now: () => number
}

/** Above it the supervisor's connection is not read: what is held there is bounded. */
const HIGH_WATER_BYTES = 256 * 1024

/**
 * One watch on one socket (packages/protocol/src/dataplane/watch-frames.ts). Its ends are `SocketSession`'s. A watch is no use of the
 * sandbox: it does not keep it from being suspended.
 */
export class WatchSocket implements WatchSink, SocketTraffic {
  readonly session: SocketSession
  readonly #options: WatchSocketOptions
  #progressAt = performance.now()

  constructor(options: WatchSocketOptions) {
    this.#options = options
    const { ws, auth, now, claims, sandbox, opened } = options
    this.session = new SocketSession({ ws, auth, now, traffic: this })
    this.session.require('fs_read')
    this.session.admit(claims, sandbox)
    this.#send({ type: 'ready', path: opened.shown, recursive: opened.recursive })
    opened.watch.begin(this)
  }

  // From the sandbox.

  happened(line: WatchLine): void {
    if (line.e === 'overflow') this.#send({ type: 'overflow' })
    else this.#send({ type: 'change', change: line.e, path: this.#options.opened.pathOf(line.p), directory: line.d })
  }

  ended(): void {
    this.#send({ type: 'end', reason: 'removed' })
    this.session.close(CLOSE.done)
  }

  failed(error: BoxofficeError): void {
    this.session.fail(error)
  }

  // What the session asks for.

  get backlog(): number {
    return this.#options.ws.bufferedAmount
  }

  checkProgress(): void {
    if (this.backlog > 0 && performance.now() - this.#progressAt > TIMES.stalledReader * 1000)
      this.session.fail(new BoxofficeError('TIMEOUT', `The client has read nothing for ${TIMES.stalledReader} s; watch again`))
  }

  tell(error: BoxofficeError): number {
    this.#send({ type: 'error', error: error.envelope(this.#options.requestId).error })
    return error.closeCode
  }

  flush(): void {}

  dispose(): void {
    this.#options.opened.watch.close()
  }

  thrown(thrown: unknown): void {
    this.session.fail(fromUnknown(thrown))
  }

  ending(error: BoxofficeError): void {
    this.session.fail(error)
  }

  lost(error: BoxofficeError): void {
    this.session.fail(error)
  }

  message(data: Buffer, isBinary: boolean): void | Promise<void> {
    if (isBinary) return this.session.close(CLOSE.badType, 'frames are text messages')
    const frame = parseFrame(data)
    if (frame.type === 'auth') return this.#renew(frame.token)
    // A client that asks and does not read gets no more.
    if (this.backlog > HIGH_WATER_BYTES) return
    this.#send({ ...frame, type: 'pong' })
  }

  async #renew(token: string): Promise<void> {
    const { auth, sandbox } = this.#options
    const claims = await auth.authenticate(token, sandbox.id, this.session.claims)
    this.session.admit(claims, sandbox)
    this.#send(authOk(claims, auth.granted(claims)))
    this.session.recheck()
  }

  #send(frame: WatchServerFrame): void {
    const { ws, opened } = this.#options
    if (ws.readyState !== ws.OPEN) return
    if (this.backlog === 0) this.#progressAt = performance.now()
    ws.send(JSON.stringify(frame), () => {
      this.#progressAt = performance.now()
      if (ws.bufferedAmount <= HIGH_WATER_BYTES) opened.watch.resume()
    })
    if (ws.bufferedAmount > HIGH_WATER_BYTES) opened.watch.pause()
  }
}

const parseFrame = (data: Buffer): WatchClientFrame => {
  try {
    return WatchClientFrame.parse(JSON.parse(data.toString()))
  } catch (cause) {
    throw new BoxofficeError('INVALID_REQUEST', 'frame: must be one of the frames auth and ping', { cause })
  }
}
