/** A timer that is so late says that this process stood still, not the network: what was sent meanwhile is yet to be read. */
const STOOD_STILL_MS = 1_000
/** Time to read it. */
const CATCH_UP_MS = 2_500
/** Timers come before what the network has brought: time to read that. */
const LAST_LOOK_MS = 50

/** Calls `onSilence` when nobody has said `heard` for the time given; once. */
export class Watchdog {
  readonly #onSilence: () => void
  #timer: ReturnType<typeof setTimeout> | undefined
  #due = 0
  #stopped = false
  #isLastLook = false

  constructor(onSilence: () => void, silentMs: number) {
    this.#onSilence = onSilence
    this.heard(silentMs)
  }

  /** Begins to wait from now on. */
  heard(silentMs: number): void {
    this.#due = performance.now() + silentMs
    this.#isLastLook = false
    // The timer is not set again each time: a fast stream is heard a thousand times in a second.
    if (!this.#stopped) this.#timer ??= setTimeout(() => this.#look(), silentMs)
  }

  stop(): void {
    this.#stopped = true
    clearTimeout(this.#timer)
  }

  #look(): void {
    const now = performance.now()
    this.#timer = undefined
    if (now < this.#due) this.heard(this.#due - now)
    else if (now - this.#due > STOOD_STILL_MS) this.heard(CATCH_UP_MS)
    else if (!this.#isLastLook) {
      this.#isLastLook = true
      this.#timer = setTimeout(() => this.#look(), LAST_LOOK_MS)
    } else this.#onSilence()
  }
}
