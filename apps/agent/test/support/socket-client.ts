import { once } from 'node:events'
import { type ClientOptions, WebSocket } from 'ws'

export type ConnectOptions = ClientOptions & { token?: string | undefined }

/** What clients of the frames and of a process's lines have in common: the connection, its end, and waiting for what comes. */
export abstract class SocketClient {
  readonly ws: WebSocket
  readonly closed: Promise<{ code: number; reason: string }>
  readonly #listeners = new Set<() => void>()

  constructor(url: string, protocols: readonly string[], { token, ...rest }: ConnectOptions) {
    this.ws = new WebSocket(url, [...protocols], {
      perMessageDeflate: false,
      ...rest,
      headers: { ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }), ...rest.headers },
    })
    this.closed = new Promise((resolve) => {
      this.ws.on('close', (code, reason) => {
        resolve({ code, reason: reason.toString() })
        this.#wake()
      })
    })
    this.ws.on('error', () => {})
    this.ws.on('message', (data, isBinary) => {
      this.received(data as Buffer, isBinary)
      this.#wake()
    })
  }

  /** Keeps a message. */
  protected abstract received(message: Buffer, isBinary: boolean): void

  /** What has come so far, for whoever waited for more. */
  protected abstract describe(): string

  async opened(): Promise<this> {
    if (this.ws.readyState === WebSocket.CONNECTING) await once(this.ws, 'open')
    return this
  }

  /** The server's answer where it refuses the upgrade. */
  async refused(): Promise<{ status: number; body: { error: { code: string } } }> {
    const [, response] = await once(this.ws, 'unexpected-response')
    let text = ''
    for await (const chunk of response) text += chunk
    return { status: response.statusCode, body: JSON.parse(text) }
  }

  /** Waits until what has come fulfils a condition. The limit is a guard against hanging. */
  async until(condition: () => boolean, withinMs = 60_000): Promise<void> {
    if (condition()) return
    await new Promise<void>((resolve, reject) => {
      const late = setTimeout(() => {
        this.#listeners.delete(check)
        reject(new Error(`not within ${withinMs} ms; ${this.describe()}`))
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

  #wake(): void {
    for (const listener of [...this.#listeners]) listener()
  }
}
