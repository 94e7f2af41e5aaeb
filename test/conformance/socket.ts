import { type RawData, WebSocket } from 'ws'

export type Frame = Record<string, unknown> & { type: string }

export type SocketOptions = {
  /** In the `Authorization` header; null: none. */
  token?: string | null
  /** Data as binary messages (`boxoffice.v1.binary`) in the place of JSON text. */
  binary?: boolean
  protocols?: string[]
  headers?: Record<string, string>
}

/** How long a frame may take: a guard against hanging, not an expectation. */
const GUARD_MS = 60_000

/** A client of the dataplane's frames that keeps what it got. */
export class Socket {
  readonly frames: Frame[] = []
  readonly closed: Promise<{ code: number; reason: string }>
  /** The status of a refused upgrade, or null once it is open. */
  readonly refused: Promise<{ status: number; code: string } | null>
  readonly #ws: WebSocket
  readonly #binary: boolean
  readonly #output = { stdout: [] as Buffer[], stderr: [] as Buffer[] }
  readonly #waiting = new Set<() => void>()
  #open = true

  constructor(url: string, { token = null, binary = false, protocols, headers = {} }: SocketOptions) {
    this.#binary = binary
    this.#ws = new WebSocket(url, protocols ?? [binary ? 'boxoffice.v1.binary' : 'boxoffice.v1'], {
      headers: { ...(token === null ? {} : { authorization: `Bearer ${token}` }), ...headers },
    })
    this.closed = new Promise((resolve) => {
      this.#ws.on('close', (code, reason) => {
        this.#open = false
        resolve({ code, reason: String(reason) })
        this.#wake()
      })
    })
    this.refused = new Promise((resolve) => {
      this.#ws.on('open', () => resolve(null))
      this.#ws.on('unexpected-response', (_request, response) => {
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.on('end', () => {
          resolve({ status: response.statusCode ?? 0, code: codeOf(Buffer.concat(chunks).toString()) })
          this.#ws.terminate()
        })
      })
    })
    this.#ws.on('error', () => {}) // `close` follows
    this.#ws.on('message', (data, isBinary) => this.#take(data as Buffer, isBinary))
  }

  get protocol(): string {
    return this.#ws.protocol
  }

  async send(frame: Record<string, unknown>): Promise<this> {
    await this.refused
    this.#ws.send(JSON.stringify(frame))
    return this
  }

  async raw(data: RawData | string): Promise<void> {
    await this.refused
    this.#ws.send(data as Buffer)
  }

  start(fields: Record<string, unknown>): Promise<this> {
    return this.send({ type: 'start', ...fields })
  }

  async stdin(data: string | Buffer): Promise<void> {
    if (this.#binary) return this.raw(Buffer.concat([Buffer.of(0), Buffer.from(data)]))
    await this.send({ type: 'stdin', data: Buffer.from(data).toString('base64'), encoding: 'base64' })
  }

  async eof(): Promise<void> {
    await (this.#binary ? this.raw(Buffer.of(0)) : this.send({ type: 'stdin', eof: true }))
  }

  bytes(stream: 'stdout' | 'stderr' = 'stdout'): Buffer {
    return Buffer.concat(this.#output[stream])
  }

  text(stream: 'stdout' | 'stderr' = 'stdout'): string {
    return this.bytes(stream).toString()
  }

  /** The first frame of a type that was or will be received; fails when the socket closes without one. */
  async frame(type: string): Promise<Frame> {
    await this.until(`a frame ${type}`, () => this.frames.some((frame) => frame.type === type) || !this.#open)
    const found = this.frames.find((frame) => frame.type === type)
    if (found === undefined) throw new Error(`closed without ${type}: ${JSON.stringify(this.frames).slice(0, 500)}`)
    return found
  }

  /** The code of the first `error` frame, and how the socket closed. */
  async failure(): Promise<[code: string, close: number]> {
    const { code } = await this.closed
    const frame = this.frames.find(({ type }) => type === 'error') as { error?: { code?: string } } | undefined
    return [frame?.error?.code ?? 'no error frame', code]
  }

  async until(what: string, holds: () => boolean): Promise<void> {
    if (holds()) return
    await new Promise<void>((resolve, reject) => {
      const look = (): void => {
        if (!holds()) return
        clearTimeout(late)
        this.#waiting.delete(look)
        resolve()
      }
      const late = setTimeout(() => {
        this.#waiting.delete(look)
        reject(new Error(`not within ${GUARD_MS} ms: ${what}; got ${this.frames.map(({ type }) => type).join(' ')}`))
      }, GUARD_MS)
      this.#waiting.add(look)
    })
  }

  close(): void {
    this.#ws.close()
  }

  terminate(): void {
    this.#ws.terminate()
  }

  #take(data: Buffer, isBinary: boolean): void {
    if (isBinary) this.#output[data[0] === 1 ? 'stdout' : 'stderr'].push(data.subarray(1))
    else {
      const frame = JSON.parse(String(data)) as Frame & { data: string; encoding?: string }
      if (frame.type === 'stdout' || frame.type === 'stderr')
        this.#output[frame.type].push(Buffer.from(frame.data, frame.encoding === 'base64' ? 'base64' : 'utf8'))
      this.frames.push(frame)
    }
    this.#wake()
  }

  #wake(): void {
    for (const look of [...this.#waiting]) look()
  }
}

const codeOf = (text: string): string => {
  try {
    return (JSON.parse(text) as { error: { code: string } }).error.code
  } catch {
    return text.slice(0, 100)
  }
}
