import { WatchServerFrame } from '@boxoffice/protocol'
import type { TestDataplane } from './dataplane.ts'
import { type ConnectOptions, SocketClient } from './socket-client.ts'

type Options = Omit<ConnectOptions, 'token'> & { query?: Record<string, string>; token?: string | null }

/** A client of a watch; keeps what it got. Every frame is checked against the schema. */
export class WatchClient extends SocketClient {
  readonly frames: WatchServerFrame[] = []
  /** The changes so far, as words; a directory has a slash. */
  readonly changes: string[] = []
  overflows = 0

  constructor(plane: TestDataplane, { query = {}, token = plane.token, ...rest }: Options = {}) {
    super(`${plane.wsBase}/files/watch?${new URLSearchParams(query)}`, ['boxoffice.v1'], { ...rest, token: token ?? undefined })
  }

  /** Resolves with `ready`: what happens from now on is told. */
  static async open(plane: TestDataplane, options: Options = {}): Promise<WatchClient> {
    const client = await new WatchClient(plane, options).opened()
    await client.until(() => client.frames.length > 0)
    return client
  }

  /** How the server refuses the upgrade. */
  static async refused(plane: TestDataplane, options: Options = {}): Promise<{ status: number; code: string }> {
    const { status, body } = await new WatchClient(plane, options).refused()
    return { status, code: body.error.code }
  }

  send(frame: object): void {
    this.ws.send(JSON.stringify(frame))
  }

  /** Waits for this change, and gives all up to it. */
  async upTo(last: string): Promise<string[]> {
    await this.until(() => this.changes.includes(last))
    return this.changes.slice(0, this.changes.indexOf(last) + 1)
  }

  async close(): Promise<void> {
    this.ws.close(1000)
    await this.closed
  }

  protected override received(message: Buffer): void {
    const frame = WatchServerFrame.parse(JSON.parse(String(message)))
    this.frames.push(frame)
    if (frame.type === 'overflow') this.overflows++
    if (frame.type === 'change') this.changes.push(`${frame.change} ${frame.path}${frame.directory ? '/' : ''}`)
  }

  protected override describe(): string {
    return `frames: ${JSON.stringify(this.frames.slice(-20))}`
  }
}
