/** What tells of its end by `close`: a WebSocket. */
type Closing = { once(event: 'close', listener: () => void): unknown }

/** How an open socket ends with its server. */
type OpenSocket = {
  /** Says goodbye; the client has a moment to answer. */
  shutdown(): void
  /** Ends it without a word. */
  terminate(): void
}

/** How long clients may take to answer the goodbye. */
const CLOSE_WITHIN_MS = 2000

/** The sockets of a server that are open, and their end with it. */
export class OpenSockets<S extends OpenSocket> {
  readonly #open = new Set<S>()
  readonly #withinMs: number
  #closing = false
  #allGone: (() => void) | undefined

  constructor(withinMs = CLOSE_WITHIN_MS) {
    this.#withinMs = withinMs
  }

  /** The server goes down: what opens now is ended at once. */
  get closing(): boolean {
    return this.#closing
  }

  /** Keeps a socket until `ws` closes. */
  add(socket: S, ws: Closing): void {
    this.#open.add(socket)
    ws.once('close', () => {
      this.#open.delete(socket)
      if (this.#open.size === 0) this.#allGone?.()
    })
    if (this.#closing) socket.shutdown()
  }

  /** Those that are open now; they may close meanwhile. */
  [Symbol.iterator](): Iterator<S> {
    return [...this.#open].values()
  }

  /** Ends all of them and resolves when they are gone. */
  async close(): Promise<void> {
    this.#closing = true
    const gone = new Promise<void>((resolve) => {
      this.#allGone = resolve
    })
    for (const socket of this) socket.shutdown()
    if (this.#open.size === 0) return
    const late = setTimeout(() => {
      for (const socket of this) socket.terminate()
    }, this.#withinMs)
    await gone
    clearTimeout(late)
  }
}
