import type { ServerResponse } from 'node:http'
import { type ConnectError, endEnvelope, messageEnvelope } from './connect.ts'

export type EventStreamOptions = {
  /** Seconds between keepalives, where the client has asked for them. */
  keepalive: number | undefined
  keepaliveEvent: object
  /** The client takes no more for now. */
  full(): void
  /** It does again. */
  drained(): void
  /** The client has gone; nothing is sent any more. */
  left(): void
}

/** The response of a call that streams: envelopes until its end (contract 7.3). Begins with its first message. */
export class EventStream {
  readonly #response: ServerResponse
  readonly #options: EventStreamOptions
  #keepalive: NodeJS.Timeout | undefined
  #ended = false

  constructor(response: ServerResponse, options: EventStreamOptions) {
    this.#response = response
    this.#options = options
    response.on('drain', () => options.drained())
    response.once('close', () => {
      clearInterval(this.#keepalive)
      if (!this.#ended) options.left()
      this.#ended = true
    })
  }

  send(message: object): void {
    if (this.#ended) return
    this.#begin()
    if (!this.#response.write(messageEnvelope(message))) this.#options.full()
  }

  /** The last message, where there is one, and the end. */
  end({ message, error }: { message?: object; error?: ConnectError } = {}): void {
    if (this.#ended) return
    this.#begin()
    this.#ended = true
    clearInterval(this.#keepalive)
    const last = message === undefined ? [] : [messageEnvelope(message)]
    this.#response.end(Buffer.concat([...last, endEnvelope(error)]))
  }

  get isEnded(): boolean {
    return this.#ended
  }

  #begin(): void {
    if (this.#response.headersSent) return
    this.#response.writeHead(200, { 'content-type': 'application/connect+json', 'cache-control': 'no-store' })
    const { keepalive, keepaliveEvent } = this.#options
    if (keepalive === undefined) return
    // A client that does not read is told nothing more: keepalives would heap up.
    this.#keepalive = setInterval(() => {
      if (!this.#response.writableNeedDrain) this.send(keepaliveEvent)
    }, keepalive * 1000)
  }
}
