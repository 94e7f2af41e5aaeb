import { isBrowser } from '../base/browser.ts'

/**
 * The body of a request as a stream. It can be opened again as long as nothing was read of it: a connection that could not be made
 * has cost nothing.
 */
export class StreamBody {
  readonly #source: () => AsyncIterator<Uint8Array>
  #iterator: AsyncIterator<Uint8Array> | undefined
  #collected: Blob | undefined

  constructor(source: ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>) {
    this.#source = () => (source instanceof ReadableStream ? iteratorOf(source) : source[Symbol.asyncIterator]())
  }

  /** Something of it was read, which cannot be sent again. */
  get isBegun(): boolean {
    return this.#iterator !== undefined && this.#collected === undefined
  }

  /**
   * What `fetch` takes: the stream itself, and in browsers a Blob of all of it. Chromium streams a body over HTTP/2 only, and the agent
   * speaks HTTP/1.1; not every other browser streams at all. Rejects with the reason of `signal`, or with what the source throws.
   */
  async open(signal?: AbortSignal): Promise<ReadableStream<Uint8Array> | Blob> {
    if (!isBrowser()) return this.#stream()
    this.#collected ??= await new Response(this.#stream().pipeThrough(new TransformStream(), { signal })).blob()
    return this.#collected
  }

  /** Pulls one chunk at a time, and none before somebody reads, so that a slow network slows the source. */
  #stream(): ReadableStream<Uint8Array> {
    return new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => {
          this.#iterator ??= this.#source()
          const { done, value } = await this.#iterator.next()
          if (done) controller.close()
          else controller.enqueue(value)
        },
        cancel: async (reason) => {
          await this.#iterator?.return?.(reason)
        },
      },
      { highWaterMark: 0 },
    )
  }
}

const iteratorOf = (stream: ReadableStream<Uint8Array>): AsyncIterator<Uint8Array> => {
  const reader = stream.getReader()
  return {
    async next() {
      const { done, value } = await reader.read()
      return done ? { done, value: undefined } : { done, value }
    },
    async return(reason) {
      await reader.cancel(reason)
      return { done: true, value: undefined }
    },
  }
}
