import { once } from 'node:events'
import { LineLedger, LinesServerFrame, SUBPROTOCOL_LINES } from '@boxoffice/protocol'
import { type ClientOptions, WebSocket } from 'ws'
import type { TestDataplane } from './dataplane.ts'

type Options = ClientOptions & { query?: string; protocols?: string[]; token?: string | null }

/** A client of a managed process's socket; keeps what it got. */
export class LineClient {
  readonly ws: WebSocket
  readonly lines: string[] = []
  readonly ledger = new LineLedger()
  readonly frames: LinesServerFrame[] = []
  readonly closed: Promise<{ code: number; reason: string }>
  readonly #listeners = new Set<() => void>()

  constructor(plane: TestDataplane, processId: string, { query = '', protocols = [], token = plane.token, ...rest }: Options = {}) {
    this.ws = new WebSocket(`${plane.wsBase}/processes/${processId}/ws${query}`, protocols, {
      perMessageDeflate: false,
      ...rest,
      headers: { ...(token === null ? {} : { Authorization: `Bearer ${token}` }), ...rest.headers },
    })
    this.closed = new Promise((resolve) => {
      this.ws.on('close', (code, reason) => {
        resolve({ code, reason: reason.toString() })
        this.#wake()
      })
    })
    this.ws.on('error', () => {})
    this.ws.on('message', (data, isBinary) => {
      if (isBinary) {
        const frame = LinesServerFrame.parse(JSON.parse(String(data)))
        if (frame.type === 'ready') this.ledger.begin(frame.stdout.offset, frame.stdin.offset)
        this.frames.push(frame)
      } else {
        this.lines.push(String(data))
        if (this.ledger.got(String(data)) && this.ws.protocol === SUBPROTOCOL_LINES)
          this.control({ type: 'ping', stdout_offset: this.ledger.received })
      }
      this.#wake()
    })
  }

  static async open(plane: TestDataplane, processId: string, options: Options = {}): Promise<LineClient> {
    const client = new LineClient(plane, processId, options)
    await once(client.ws, 'open')
    return client
  }

  /** The server's answer where it refuses the upgrade. */
  static async refused(plane: TestDataplane, processId: string, options: Options = {}): Promise<{ status: number; code: string }> {
    const [, response] = await once(new LineClient(plane, processId, options).ws, 'unexpected-response')
    let text = ''
    for await (const chunk of response) text += chunk
    return { status: response.statusCode, code: JSON.parse(text).error.code }
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

  async until(condition: () => boolean, withinMs = 20_000): Promise<void> {
    if (condition()) return
    await new Promise<void>((resolve, reject) => {
      const late = setTimeout(() => {
        this.#listeners.delete(check)
        reject(new Error(`not within ${withinMs} ms; lines: ${this.lines.length}, last: ${this.lines.at(-1)?.slice(0, 100)}`))
      }, withinMs)
      const check = (): void => {
        if (!condition()) return
        clearTimeout(late)
        this.#listeners.delete(check)
        resolve()
      }
      this.#listeners.add(check)
    })
  }

  async close(): Promise<void> {
    this.ws.close(1000)
    await this.closed
  }

  #wake(): void {
    for (const listener of [...this.#listeners]) listener()
  }
}
