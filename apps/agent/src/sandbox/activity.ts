import type { Activity } from './sandbox.ts'

const once = (action: () => void): (() => void) => {
  let done = false
  return () => {
    if (done) return
    done = true
    action()
  }
}

/** Longer ago than any session lasts. */
const LONG_AGO_MS = 100 * 365 * 24 * 3600 * 1000

export type OwnActivity = Activity & {
  /** It has been suspended since before this agent came: its last use is further back than that, and nobody here knows how far. */
  slept(): void
}

/** Counts what goes on in one sandbox. Time is monotonic: a jump of the wall clock makes nobody idle [C-77]. */
export const createActivity = (now: () => number = () => performance.now()): OwnActivity => {
  let running = 0
  let attached = 0
  let lastAt = now()

  const touch = (): void => {
    lastAt = now()
  }
  return {
    touch,
    slept() {
      lastAt = now() - LONG_AGO_MS
    },
    attach() {
      attached++
      touch()
      return once(() => {
        attached--
        touch()
      })
    },
    run() {
      running++
      touch()
      return once(() => {
        running--
        touch()
      })
    },
    snapshot: () => ({ running, attached, idle_ms: running > 0 || attached > 0 ? 0 : Math.max(0, Math.round(now() - lastAt)) }),
  }
}
