import type { WebSocket } from 'ws'

type Step = () => void | Promise<void>

/** A client's messages one after the other: while one is being worked on, the socket is not read and what was read waits. */
export class Messages {
  readonly #ws: WebSocket
  readonly #failed: (thrown: unknown) => void
  #waiting: Step[] = []
  #busy = false
  #held = false
  #stopped = false

  constructor(ws: WebSocket, failed: (thrown: unknown) => void) {
    this.#ws = ws
    this.#failed = failed
  }

  /** True while the socket is not read. */
  get paused(): boolean {
    return this.#busy || this.#held
  }

  add(step: Step): void {
    if (this.#stopped) return
    if (this.#busy) this.#waiting.push(step)
    else this.#run(step)
  }

  /** Stops reading for another reason: the process does not take its stdin. */
  hold(held: boolean): void {
    this.#held = held
    this.#apply()
  }

  /** Drops everything. The socket is read again, because the answer to a close has to be. */
  stop(): void {
    this.#stopped = true
    this.#waiting = []
    this.#ws.resume()
  }

  #run(step: Step): void {
    let pending: void | Promise<void>
    try {
      pending = step()
    } catch (thrown) {
      return this.#failed(thrown)
    }
    if (pending === undefined) return
    this.#busy = true
    this.#apply()
    pending.catch(this.#failed).finally(() => {
      this.#busy = false
      for (let next = this.#next(); next !== undefined; next = this.#next()) this.#run(next)
      this.#apply()
    })
  }

  #next(): Step | undefined {
    return this.#busy || this.#stopped ? undefined : this.#waiting.shift()
  }

  #apply(): void {
    if (this.paused && !this.#stopped) this.#ws.pause()
    else this.#ws.resume()
  }
}
