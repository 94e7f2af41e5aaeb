import { ResendBuffer } from '@boxoffice/kit/resend-buffer'
import { LinesServerFrame, SUBPROTOCOL_LINES } from '@boxoffice/protocol'
import { expect } from 'vitest'
import type { TestDataplane } from './dataplane.ts'
import { eventually } from './eventually.ts'
import { type ConnectOptions, SocketClient } from './socket-client.ts'

/** `token`: null for none; the plane's where nothing is said. */
type Options = Omit<ConnectOptions, 'token'> & { query?: string; protocols?: string[]; token?: string | null }

/** A client of a managed process's socket; keeps what it got. */
export class LineClient extends SocketClient {
  readonly lines: string[] = []
  readonly resend = new ResendBuffer()
  readonly frames: LinesServerFrame[] = []
  readonly #plane: TestDataplane
  readonly #processId: string

  constructor(plane: TestDataplane, processId: string, { query = '', protocols = [], token = plane.token, ...rest }: Options = {}) {
    super(`${plane.wsBase}/processes/${processId}/ws${query}`, protocols, { ...rest, token: token ?? undefined })
    this.#plane = plane
    this.#processId = processId
  }

  static async open(plane: TestDataplane, processId: string, options: Options = {}): Promise<LineClient> {
    return new LineClient(plane, processId, options).opened()
  }

  /** How the server refuses the upgrade. */
  static async refused(plane: TestDataplane, processId: string, options: Options = {}): Promise<{ status: number; code: string }> {
    const { status, body } = await new LineClient(plane, processId, options).refused()
    return { status, code: body.error.code }
  }

  send(line: string): void {
    this.ws.send(line)
  }

  control(frame: object): void {
    this.ws.send(Buffer.from(JSON.stringify(frame)), { binary: true })
  }

  /** Waits until so many lines have come in all. */
  async got(count: number): Promise<string[]> {
    await this.until(() => this.lines.length >= count)
    return this.lines
  }

  async close(): Promise<void> {
    this.ws.close(1000)
    await this.closed
  }

  /** Closes, and waits until the agent knows: through the relay it learns of it a moment later. */
  async leave(): Promise<void> {
    await this.close()
    await eventually(async () => expect(await this.#plane.process(this.#processId)).toMatchObject({ attached: false }))
  }

  protected override received(message: Buffer, isBinary: boolean): void {
    const text = String(message)
    if (isBinary) {
      const frame = LinesServerFrame.parse(JSON.parse(text))
      if (frame.type === 'ready') this.resend.begin(frame.stdout.offset, frame.stdin.offset)
      this.frames.push(frame)
    } else {
      this.lines.push(text)
      if (this.resend.got(text) && this.ws.protocol === SUBPROTOCOL_LINES)
        this.control({ type: 'ping', stdout_offset: this.resend.received })
    }
  }

  protected override describe(): string {
    return `lines: ${this.lines.length}, last: ${this.lines.at(-1)?.slice(0, 100)}`
  }
}
