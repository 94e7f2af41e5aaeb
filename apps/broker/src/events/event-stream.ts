import { endsStream } from '@boxoffice/protocol'
import type { EventStore, SessionEventRow } from '../store/session-store.ts'
import type { EventFeed, Watcher } from './event-feed.ts'

export type EventStreamOptions = {
  store: EventStore
  feed: EventFeed
  sessionId: string
  /** Whose stream it is, for limits. */
  principal: string
  /** The last event that the reader has; null for whatever is kept. */
  after: number | null
  /** The session has ended: nothing comes after what is there. */
  ended: boolean
  /** Whether the caller may go on reading; asked every `pingMs`. Throws when not. */
  admit: () => Promise<unknown>
  /** Cuts the connection of a reader that takes nothing. */
  drop: () => void
  pingMs: number
  stallMs: number
}

const PAGE = 100
/** What a browser's EventSource waits before it comes back. */
const RETRY_MS = 1000

/**
 * The events of one session as server-sent events. Nothing is kept for the reader: each pull reads on in the store where the
 * last one ended, so a slow reader costs no memory, and one that takes nothing for `stallMs` is dropped.
 */
export class EventStream implements UnderlyingDefaultSource<Uint8Array>, Watcher {
  readonly #options: EventStreamOptions
  readonly #utf8 = new TextEncoder()
  readonly #leave: () => void
  #position: number | null
  #first = true
  /** Told that there is more, and not looked since. */
  #more = true
  /** Everything has been sent, or nothing more may be. */
  #closed = false
  /** Somebody asks for more; else what was sent last is still on its way. */
  #asked = false
  #wake: () => void = () => {}
  #stalled: NodeJS.Timeout | undefined
  #admittedAt = performance.now()

  /** Counts as an open stream from here on; throws when there are too many. */
  static open(options: EventStreamOptions): ReadableStream<Uint8Array> {
    return new ReadableStream(new EventStream(options), { highWaterMark: 0 })
  }

  private constructor(options: EventStreamOptions) {
    this.#options = options
    this.#position = options.after
    this.#leave = options.feed.watch(options.sessionId, options.principal, this)
  }

  async pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    clearTimeout(this.#stalled)
    this.#asked = true
    // Lost access and a store that fails end the stream alike; the reader comes back and is told why.
    const frames = await this.#next().catch(() => '')
    this.#asked = false
    if (frames === '') {
      this.#finish()
      return controller.close()
    }
    controller.enqueue(this.#utf8.encode(frames))
    this.#stalled = setTimeout(() => this.#options.drop(), this.#options.stallMs)
  }

  /** The reader has gone. */
  cancel(): void {
    this.#finish()
  }

  more(): void {
    this.#more = true
    this.#wake()
  }

  end(): void {
    const { drop } = this.#options
    const slow = !this.#asked
    this.#finish()
    if (slow) drop()
  }

  #finish(): void {
    this.#closed = true
    clearTimeout(this.#stalled)
    this.#leave()
    this.#wake()
  }

  /** What comes next, once there is something; empty at the end. */
  async #next(): Promise<string> {
    const { ended, admit, pingMs } = this.#options
    for (;;) {
      if (this.#closed) return ''
      if (performance.now() - this.#admittedAt >= pingMs) {
        await admit()
        this.#admittedAt = performance.now()
      }
      if (this.#more) {
        this.#more = false
        const frames = await this.#page()
        if (frames !== '') return frames
        if (ended) return ''
      }
      if (this.#first) return this.#begin()
      if (!this.#more && !(await this.#news(pingMs))) return ': ping\n\n'
    }
  }

  /** Tells at once that it is open; then proxies pass it on, too. */
  #begin(): string {
    this.#first = false
    return `retry: ${RETRY_MS}\n\n`
  }

  async #page(): Promise<string> {
    const { store, sessionId } = this.#options
    const rows = await store.after(sessionId, this.#position ?? 0, PAGE)
    if (rows.length === 0) return ''
    let text = this.#first ? this.#begin() : ''
    for (const row of rows) {
      // Kept no longer, after a long absence or because a slow reader was overtaken; or never told by the agent.
      if (this.#position !== null && row.id > this.#position + 1) text += gap(sessionId, this.#position + 1, row.id - 1)
      text += frame(sessionId, row)
      this.#position = row.id
      if (!endsStream(row.type, JSON.parse(row.data) as object)) continue
      this.#closed = true
      return text
    }
    this.#more ||= rows.length === PAGE
    return text
  }

  /** True when there may be more, or nothing ever will; false after `ms`. */
  #news(ms: number): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => settle(false), ms)
      const settle = (news: boolean): void => {
        clearTimeout(timer)
        this.#wake = () => {}
        resolve(news)
      }
      this.#wake = () => settle(true)
      if (this.#more || this.#closed) settle(true)
    })
  }
}

const frame = (sessionId: string, { id, ts, type, data }: SessionEventRow): string => {
  const header = JSON.stringify({ session_id: sessionId, ts: new Date(ts).toISOString() })
  return `id: ${id}\nevent: ${type}\ndata: ${data === '{}' ? header : `${header.slice(0, -1)},${data.slice(1)}`}\n\n`
}

/** Without an id, so that a reader that drops now is told again. */
const gap = (sessionId: string, from: number, to: number): string =>
  `event: gap\ndata: ${JSON.stringify({ session_id: sessionId, from, to })}\n\n`
