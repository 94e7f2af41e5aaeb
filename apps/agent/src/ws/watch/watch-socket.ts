import { BoxofficeError, CLOSE, TIMES, WatchClientFrame, type WatchServerFrame } from '@boxoffice/protocol'
import type { WatchSink } from '../../files/watch.ts'
import type { WatchLine } from '../../supervisor/payloads.ts'
import { authOk } from '../session/auth-ok.ts'
import { WholeSocket, type WholeSocketOptions } from '../session/whole-socket.ts'
import type { OpenedWatch } from './opened-watch.ts'

export type WatchSocketOptions = WholeSocketOptions & { opened: OpenedWatch }

/** Above it the supervisor's connection is not read: what is held there is bounded. */
const HIGH_WATER_BYTES = 256 * 1024

/**
 * One watch on one socket (packages/protocol/src/dataplane/watch-frames.ts). Its ends are `SocketSession`'s. A watch is no use of the
 * sandbox: it does not keep it from being suspended.
 */
export class WatchSocket extends WholeSocket implements WatchSink {
  readonly #options: WatchSocketOptions
  #progressAt = performance.now()

  constructor(options: WatchSocketOptions) {
    super(options)
    this.#options = options
    const { opened } = options
    this.admit('fs_read')
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

  checkProgress(): void {
    if (this.backlog > 0 && performance.now() - this.#progressAt > TIMES.stalledReader * 1000)
      this.session.fail(new BoxofficeError('TIMEOUT', `The client has read nothing for ${TIMES.stalledReader} s; watch again`))
  }

  tell(error: BoxofficeError): number {
    this.#send({ type: 'error', error: error.envelope(this.#options.requestId).error })
    return error.closeCode
  }

  dispose(): void {
    this.#options.opened.watch.close()
  }

  message(data: Buffer, isBinary: boolean): void | Promise<void> {
    if (isBinary) return this.session.close(CLOSE.badType, 'frames are text messages')
    const frame = parseFrame(data)
    if (frame.type === 'auth') return this.renew(frame.token, (claims) => this.#send(authOk(claims, this.#options.auth.granted(claims))))
    // A client that asks and does not read gets no more.
    if (this.backlog > HIGH_WATER_BYTES) return
    this.#send({ ...frame, type: 'pong' })
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
