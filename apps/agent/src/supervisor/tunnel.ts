import { Duplex } from 'node:stream'
import { hintRead } from '@boxoffice/node-http'
import { BoxofficeError } from '@boxoffice/protocol'
import { parseFault, portNotListening, tunnelError } from './faults.ts'
import type { Channel, ChannelHandler, SupervisorLink } from './link.ts'
import { Dialled, PortList } from './payloads.ts'
import { FRAME, WireViolation } from './wire.ts'

/** Bytes of the sandbox that wait for a reader; above it the channel is not read. */
const READ_AHEAD_BYTES = 256 * 1024
/** Bytes that wait for the sandbox to read them. Half of what other operations have, as a sandbox has hundreds of tunnels. */
const WRITE_AHEAD_BYTES = 256 * 1024

/** A connection to a port of the sandbox. Each way ends by itself; an error is that of the connection or of the sandbox. */
export type Tunnel = Duplex & {
  /** Where somebody listens: `127.0.0.1` or `::1`. */
  readonly host: string
}

/**
 * Connects to a port of the sandbox's loopback. Rejects with PORT_NOT_LISTENING where nobody listens, with TIMEOUT where the connection
 * is not taken in time, with RATE_LIMITED above the number of connections that a sandbox has at most, and with UNSUPPORTED for a
 * supervisor of before, and where the sandbox has no loopback.
 */
export const dialPort = async (
  link: SupervisorLink,
  port: number,
  { signal, timeoutMs }: { signal?: AbortSignal; timeoutMs?: number } = {},
): Promise<Tunnel> => {
  requireDials(link)
  const tunnel = new ChannelTunnel(port)
  try {
    await tunnel.dial(link, { timeoutMs, signal })
    return tunnel
  } catch (error) {
    if (!(error instanceof BoxofficeError) || error.code !== 'PORT_NOT_LISTENING') throw error
    throw portNotListening(port, await listeningPorts(link))
  }
}

/** TCP ports on which somebody listens where `dialPort` connects, in order. */
export const listeningPorts = async (link: SupervisorLink): Promise<readonly number[]> => {
  requireDials(link)
  return PortList.parse(await link.call('ports', {})).ports
}

const requireDials = (link: SupervisorLink): void => {
  if (!link.dials)
    throw new BoxofficeError(
      'UNSUPPORTED',
      'ports: this sandbox has no loopback (its network is "none"), or an older release started it; start a new one with another profile',
    )
}

/** A connection that a program of the sandbox has made to the agent, on a channel that is lent from the start. */
export const acceptedTunnel = (lend: (handler: ChannelHandler) => Channel): Tunnel => {
  const tunnel = new ChannelTunnel(0)
  tunnel.carry(lend)
  return tunnel
}

/** The channel of one connection as a stream: the empty frame is the end of one way, the frame `end` that of both. */
class ChannelTunnel extends Duplex {
  host = ''
  readonly #port: number
  readonly #dialled = Promise.withResolvers<void>()
  #channel: Channel | undefined
  #inputEnded = false
  #outputEnded = false
  #isOver = false

  constructor(port: number) {
    super({ readableHighWaterMark: READ_AHEAD_BYTES, allowHalfOpen: true })
    this.#port = port
    // A connection may break before who dialled it has been told that it is there: `errored` tells why.
    this.on('error', () => {})
  }

  async dial(
    link: SupervisorLink,
    { timeoutMs, signal }: { timeoutMs: number | undefined; signal: AbortSignal | undefined },
  ): Promise<void> {
    const abort = (): void => this.#fail(abandoned())
    const channel = await link.open(this.#handler, signal)
    this.#channel = channel
    if (signal?.aborted === true) abort()
    signal?.addEventListener('abort', abort, { once: true })
    channel.send(FRAME.dial, { port: this.#port, ...(timeoutMs !== undefined && { timeout_ms: timeoutMs }) })
    try {
      await this.#dialled.promise
    } finally {
      signal?.removeEventListener('abort', abort)
    }
  }

  carry(lend: (handler: ChannelHandler) => Channel): void {
    this.host = '127.0.0.1'
    this.#channel = lend(this.#handler)
    this.#channel.send(FRAME.take, {})
  }

  readonly #handler: ChannelHandler = {
    data: (_stream, piece) => {
      if (this.destroyed) return
      if (this.#outputEnded) throw new WireViolation('data after its end')
      hintRead(piece.length)
      // The piece is overwritten by the next read.
      if (!this.push(Buffer.from(piece))) this.#channel?.pause()
    },
    dataEnded: () => {
      if (this.destroyed || this.#outputEnded) return
      this.#outputEnded = true
      this.push(null)
      // A stream that has ended asks for nothing: the frame `end` would stay unread.
      this.#channel?.resume()
    },
    frame: (type, payload) => {
      if (type === FRAME.ready) {
        this.host = Dialled.parse(payload).host
        return this.#dialled.resolve()
      }
      this.#isOver = true
      if (type !== FRAME.end) this.#fail(type === FRAME.error ? tunnelError(parseFault(payload), this.#port) : lost())
    },
    closed: () => {
      this.#isOver = true
      this.#fail(lost())
    },
  }

  #fail(error: BoxofficeError): void {
    this.#dialled.promise.catch(() => {})
    this.#dialled.reject(error)
    this.destroy(this.host === '' ? undefined : error)
  }

  // From the stream.

  override _read(): void {
    this.#channel?.resume()
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    const channel = this.#channel
    if (channel === undefined || this.#isOver) return done()
    hintRead(chunk.length)
    if (channel.write(chunk, WRITE_AHEAD_BYTES)) done()
    else channel.drained().then(() => done(), done)
  }

  override _final(done: (error?: Error | null) => void): void {
    if (!this.#isOver) this.#channel?.writeEnd()
    this.#inputEnded = true
    done()
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    // What has not ended both ways is broken off, and the program sees that. Else the frame `end` is on its way.
    if (!this.#isOver && !(this.#inputEnded && this.#outputEnded)) this.#channel?.destroy()
    done(error)
  }
}

const lost = (): BoxofficeError =>
  new BoxofficeError('BACKEND_UNAVAILABLE', 'The connection to the sandbox has ended; connect again', { retryAfter: 1 })

const abandoned = (): BoxofficeError => new BoxofficeError('INVALID_REQUEST', 'The client closed the connection')
