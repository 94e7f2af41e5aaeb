/**
 * The body of a request as a stream. It can be opened again as long as nothing was read of it: a connection that could not be made
 * has cost nothing.
 */
export class StreamBody {
  readonly #source: () => AsyncIterator<Uint8Array>
  #iterator: AsyncIterator<Uint8Array> | undefined

  constructor(source: ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>) {
    this.#source = () => (source instanceof ReadableStream ? iteratorOf(source) : source[Symbol.asyncIterator]())
  }

  /** Something of it was read, which cannot be sent again. */
  get isBegun(): boolean {
    return this.#iterator !== undefined
  }

  /** Pulls one chunk at a time, and none before somebody reads, so that a slow network slows the source. */
  open(): ReadableStream<Uint8Array> {
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
