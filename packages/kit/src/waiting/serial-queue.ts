/** Work one at a time, in the order in which it came. Work that fails does not hold up what comes after it. */
export class SerialQueue {
  #last: Promise<unknown> = Promise.resolve()

  /** Gives what the work gives, or throws it, once all work before it has ended. */
  run<T>(work: () => T | PromiseLike<T>): Promise<T> {
    const result = this.#last.then(work)
    this.#last = result.then(nothing, nothing)
    return result
  }

  /** Resolves when all work that has come so far has ended, however it ended. */
  async idle(): Promise<void> {
    await this.#last
  }
}

// Gives nothing, so that no result is kept until the next work comes.
const nothing = (): void => {}
