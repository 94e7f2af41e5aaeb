import type { Activity } from './sandbox.ts'

const once = (action: () => void): (() => void) => {
  let done = false
  return () => {
    if (done) return
    done = true
    action()
  }
}

/** Counts what goes on in one sandbox. Time is monotonic: a jump of the wall clock makes nobody idle [C-77]. */
export const createActivity = (now: () => number = () => performance.now()): Activity => {
  let running = 0
  let attached = 0
  let lastAt = now()

  const touch = (): void => {
    lastAt = now()
  }
  return {
    touch,
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
