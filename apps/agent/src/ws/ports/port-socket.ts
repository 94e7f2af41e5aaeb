import { BoxofficeError, CLOSE, LIMITS, PortClientFrame, type PortServerFrame, TIMES } from '@boxoffice/protocol'
import { whyBroken } from '../../sandbox/loss.ts'
import type { SupervisorLink } from '../../supervisor/link.ts'
import { authOk } from '../session/auth-ok.ts'
import { WholeSocket, type WholeSocketOptions } from '../session/whole-socket.ts'
import type { OpenedPort } from './opened-port.ts'

export type PortSocketOptions = WholeSocketOptions & { opened: OpenedPort }

/**
 * One TCP connection to a port of the sandbox on one socket (packages/protocol/src/dataplane/ports.ts). Whichever side does not read holds
 * the other one up: neither keeps more than `LIMITS.highWaterBytes`.
 */
export class PortSocket extends WholeSocket {
  readonly #options: PortSocketOptions
  readonly #link: SupervisorLink
  #progressAt = performance.now()
  /** Bytes of the program that were sent, and that the client says to have. */
  #sent = 0
  #acknowledged = 0
  /** Bytes of the client that the sandbox has taken, and that the client knows of. */
  #taken = 0
  #told = 0

  constructor(options: PortSocketOptions) {
    super(options)
    this.#options = options
    const { opened, sandbox } = options
    const { tunnel, port } = opened
    this.#link = sandbox.link
    tunnel.on('error', (error) => this.#broken(error))
    tunnel.on('close', () => tunnel.errored === null && this.session.close(CLOSE.done))
    this.admit('ports')
    this.session.use(sandbox)
    this.#send({ type: 'ready', port, host: tunnel.host })
    tunnel.on('end', () => this.#send({ type: 'end' }))
    tunnel.on('data', (bytes: Buffer) => this.#toClient(bytes))
    if (tunnel.errored !== null) this.#broken(tunnel.errored)
  }

  // From the sandbox.

  #toClient(bytes: Buffer): void {
    const { ws, opened } = this.#options
    if (ws.readyState !== ws.OPEN) return
    if (this.backlog === 0) this.#progressAt = performance.now()
    this.#sent += bytes.length
    ws.send(bytes, { binary: true }, () => {
      this.#progressAt = performance.now()
      this.#pace()
    })
    if (!this.#hasRoom()) opened.tunnel.pause()
  }

  #hasRoom(): boolean {
    const { window } = this.#options.opened
    return this.backlog <= LIMITS.highWaterBytes && (window === undefined || this.#sent - this.#acknowledged < window)
  }

  #pace(): void {
    const { tunnel } = this.#options.opened
    if (tunnel.isPaused() && this.#hasRoom()) tunnel.resume()
  }

  #broken(thrown: Error): void {
    if (thrown instanceof BoxofficeError && thrown.code !== 'BACKEND_UNAVAILABLE') return this.session.fail(thrown)
    void whyBroken(this.#options.sandbox, this.#link).then((error) =>
      this.session.fail(error.code === 'BACKEND_UNAVAILABLE' && thrown instanceof BoxofficeError ? thrown : error),
    )
  }

  // What the session asks for.

  checkProgress(): void {
    if (this.backlog > 0 && performance.now() - this.#progressAt > TIMES.stalledReader * 1000)
      this.session.fail(new BoxofficeError('TIMEOUT', `The client has read nothing for ${TIMES.stalledReader} s; connect again`))
  }

  tell(error: BoxofficeError): number {
    this.#send({ type: 'error', error: error.envelope(this.#options.requestId).error })
    return error.closeCode
  }

  dispose(): void {
    this.#options.opened.tunnel.destroy()
  }

  // From the client.

  message(data: Buffer, isBinary: boolean): void | Promise<void> {
    if (isBinary) return this.#toSandbox(data)
    const frame = parseFrame(data)
    if (frame.type === 'auth') return this.renew(frame.token, (claims) => this.#send(authOk(claims, this.#options.auth.granted(claims))))
    if (frame.type === 'end') return void this.#options.opened.tunnel.end()
    if (frame.type === 'ack') return this.#onAck(frame.received)
    // A client that asks and does not read gets no more.
    if (this.backlog <= LIMITS.highWaterBytes) this.#send({ ...frame, type: 'pong' })
  }

  /** The next message waits until there is room. */
  #toSandbox(bytes: Buffer): void | Promise<void> {
    const { tunnel } = this.#options.opened
    if (tunnel.writableEnded) throw new BoxofficeError('INVALID_REQUEST', 'bytes: none may come after the frame end')
    if (tunnel.destroyed) return
    const { promise, resolve } = Promise.withResolvers<void>()
    const isRoom = tunnel.write(bytes, () => {
      this.#taken += bytes.length
      this.#acknowledge()
      resolve()
    })
    return isRoom ? undefined : promise
  }

  #acknowledge(): void {
    const { window } = this.#options.opened
    if (window === undefined || this.#taken - this.#told < window / 4) return
    this.#told = this.#taken
    this.#send({ type: 'ack', received: this.#taken })
  }

  #onAck(received: number): void {
    if (received > this.#sent) throw new BoxofficeError('INVALID_REQUEST', `received: only ${this.#sent} bytes were sent`)
    this.#acknowledged = Math.max(this.#acknowledged, received)
    this.#pace()
  }

  #send(frame: PortServerFrame): void {
    const { ws } = this.#options
    if (ws.readyState === ws.OPEN) ws.send(JSON.stringify(frame))
  }
}

const parseFrame = (data: Buffer): PortClientFrame => {
  try {
    return PortClientFrame.parse(JSON.parse(data.toString()))
  } catch (cause) {
    throw new BoxofficeError('INVALID_REQUEST', 'frame: must be one of the frames end, ack, auth and ping', { cause })
  }
}
