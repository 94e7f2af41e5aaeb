import type { Socket } from 'node:net'
import { ServerFrame } from '@boxoffice/protocol'
import { WebSocket } from 'ws'
import { type ConnectOptions, SocketClient } from './socket-client.ts'

export type Encoding = 'json' | 'base64' | 'binary'

const PROTOCOLS: Record<Encoding, string[]> = { json: ['boxoffice.v1'], base64: ['boxoffice.v1'], binary: ['boxoffice.v1.binary'] }

type Frame = ServerFrame & Record<string, unknown>

/** A client of the frames, in any of the three encodings; keeps what it got. Every JSON frame is checked against the schema. */
export class TestSocket extends SocketClient {
  readonly encoding: Encoding
  readonly frames: Frame[] = []
  readonly output: Record<'stdout' | 'stderr', Buffer[]> = { stdout: [], stderr: [] }

  constructor(url: string, encoding: Encoding = 'json', options: ConnectOptions = {}) {
    super(url, PROTOCOLS[encoding], options)
    this.encoding = encoding
  }

  get socket(): Socket {
    return (this.ws as unknown as { _socket: Socket })._socket
  }

  send(frame: Record<string, unknown>): void {
    this.ws.send(JSON.stringify(frame))
  }

  /** Sends `start`; in base64 the output is asked for in base64. */
  start(frame: Record<string, unknown>): void {
    this.send({ type: 'start', ...(this.encoding === 'base64' ? { encoding: 'base64' } : {}), ...frame })
  }

  stdin(data: Buffer | string): void {
    const bytes = Buffer.from(data)
    if (this.encoding === 'binary') this.ws.send(Buffer.concat([Buffer.of(0), bytes]))
    else if (this.encoding === 'base64') this.send({ type: 'stdin', data: bytes.toString('base64'), encoding: 'base64' })
    else this.send({ type: 'stdin', data: bytes.toString() })
  }

  eof(): void {
    if (this.encoding === 'binary') this.ws.send(Buffer.of(0))
    else this.send({ type: 'stdin', eof: true })
  }

  bytes(stream: 'stdout' | 'stderr' = 'stdout'): Buffer {
    return Buffer.concat(this.output[stream])
  }

  text(stream: 'stdout' | 'stderr' = 'stdout'): string {
    return this.bytes(stream).toString()
  }

  find<T extends Frame['type']>(type: T): Extract<Frame, { type: T }> | undefined {
    return this.frames.find((frame): frame is Extract<Frame, { type: T }> => frame.type === type)
  }

  /** The first frame of a type, waiting for it; fails when the socket closes without one. */
  async frame<T extends Frame['type']>(type: T, withinMs = 60_000): Promise<Extract<Frame, { type: T }>> {
    await this.until(() => this.find(type) !== undefined || this.ws.readyState === WebSocket.CLOSED, withinMs)
    const found = this.find(type)
    if (found === undefined)
      throw new Error(`closed without ${type}: ${JSON.stringify(this.frames.filter(({ type: t }) => t === 'error'))}`)
    return found
  }

  /** Of the first error that was told. */
  get errorCode(): string | undefined {
    return this.find('error')?.error.code
  }

  protected override describe(): string {
    return `frames: ${this.frames.map(({ type }) => type).join(' ')}; stdout: ${this.text().slice(-200)}`
  }

  protected override received(bytes: Buffer, isBinary: boolean): void {
    if (isBinary) this.output[bytes[0] === 1 ? 'stdout' : 'stderr'].push(bytes.subarray(1))
    else {
      const frame = ServerFrame.parse(JSON.parse(bytes.toString())) as Frame
      if (frame.type === 'stdout' || frame.type === 'stderr') this.#take(frame)
      this.frames.push(frame)
    }
  }

  #take(frame: Extract<Frame, { type: 'stdout' | 'stderr' }>): void {
    const piece = frame.encoding === 'base64' ? Buffer.from(frame.data, 'base64') : Buffer.from(frame.data)
    if (frame.lossy !== true && piece.length !== frame.bytes) throw new Error('bytes is not the length of data')
    this.output[frame.type].push(piece)
  }
}
