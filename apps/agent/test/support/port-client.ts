import { PortServerFrame } from '@boxoffice/protocol'
import type { TestDataplane } from './dataplane.ts'
import { type ConnectOptions, SocketClient } from './socket-client.ts'

type Options = Omit<ConnectOptions, 'token'> & { query?: string; protocols?: string[]; token?: string | null }

/** A client of a port of the sandbox; keeps what it got. Every frame is checked against the schema. */
export class PortClient extends SocketClient {
  readonly frames: PortServerFrame[] = []
  readonly pieces: Buffer[] = []
  byteCount = 0

  constructor(
    plane: TestDataplane,
    port: number | string,
    { query = '', protocols = ['boxoffice.v1'], token = plane.token, ...rest }: Options = {},
  ) {
    super(`${plane.wsBase}/ports/${port}${query}`, protocols, { ...rest, token: token ?? undefined })
  }

  /** Resolves with `ready`. */
  static async open(plane: TestDataplane, port: number | string, options: Options = {}): Promise<PortClient> {
    const client = await new PortClient(plane, port, options).opened()
    await client.until(() => client.frames.length > 0)
    return client
  }

  /** How the server refuses the upgrade. */
  static async refused(plane: TestDataplane, port: number | string, options: Options = {}): Promise<{ status: number; error: object }> {
    const { status, body } = await new PortClient(plane, port, options).refused()
    return { status, error: body.error }
  }

  frame(frame: object): void {
    this.ws.send(JSON.stringify(frame))
  }

  write(bytes: Uint8Array | string): void {
    this.ws.send(typeof bytes === 'string' ? Buffer.from(bytes) : bytes, { binary: true })
  }

  end(): void {
    this.frame({ type: 'end' })
  }

  get bytes(): Buffer {
    return Buffer.concat(this.pieces)
  }

  get types(): string[] {
    return this.frames.map(({ type }) => type)
  }

  find<T extends PortServerFrame['type']>(type: T): Extract<PortServerFrame, { type: T }> | undefined {
    return this.frames.find((frame) => frame.type === type) as Extract<PortServerFrame, { type: T }> | undefined
  }

  protected override received(message: Buffer, isBinary: boolean): void {
    if (isBinary) {
      this.pieces.push(message)
      this.byteCount += message.length
    } else this.frames.push(PortServerFrame.parse(JSON.parse(String(message))))
  }

  protected override describe(): string {
    return `${this.byteCount} bytes, frames: ${JSON.stringify(this.frames.slice(-20))}`
  }
}
