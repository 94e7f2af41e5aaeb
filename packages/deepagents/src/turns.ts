/** Lets so much work run at once; the rest waits in the order in which it came. */
export class Turns {
  #free: number
  readonly #waiting: (() => void)[] = []

  constructor(most: number) {
    this.#free = most
  }

  /** Gives what the work gives, or throws it. Work that is aborted while it waits is left out, and its reason thrown at once. */
  async run<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    if (this.#free > 0) this.#free--
    else await this.#turn(signal)
    try {
      signal?.throwIfAborted()
      return await work()
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#free++
      else next()
    }
  }

  #turn(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(turn), 1)
        reject(signal?.reason)
      }
      const turn = (): void => {
        signal?.removeEventListener('abort', leave)
        resolve()
      }
      if (signal?.aborted) return reject(signal.reason)
      this.#waiting.push(turn)
      signal?.addEventListener('abort', leave, { once: true })
    })
  }
}
