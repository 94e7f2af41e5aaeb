type Step = () => void | Promise<void>

/** A client's messages one after the other: while one is being worked on the others wait, and the socket is not read. */
export class MessageQueue {
  readonly #pause: (paused: boolean) => void
  readonly #failed: (thrown: unknown) => void
  readonly #waiting: Step[] = []
  #busy = false
  #stopped = false

  constructor(pause: (paused: boolean) => void, failed: (thrown: unknown) => void) {
    this.#pause = pause
    this.#failed = failed
  }

  add(step: Step): void {
    if (this.#stopped) return
    if (this.#busy) this.#waiting.push(step)
    else this.#run(step)
  }

  /** Drops what waits. */
  stop(): void {
    this.#stopped = true
    this.#waiting.length = 0
  }

  #run(first: Step): void {
    for (let step: Step | undefined = first; step !== undefined && !this.#stopped; step = this.#waiting.shift()) {
      try {
        const pending = step()
        if (pending === undefined) continue
        this.#busy = true
        this.#pause(true)
        return void pending.catch(this.#failed).finally(() => this.#resume())
      } catch (thrown) {
        this.#failed(thrown)
      }
    }
  }

  #resume(): void {
    this.#busy = false
    const next = this.#waiting.shift()
    if (next !== undefined) this.#run(next)
    if (!this.#busy) this.#pause(false)
  }
}
