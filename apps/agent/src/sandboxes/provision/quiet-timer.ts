export interface QuietTimer {
  /** Somebody took one. With `few` left the work is not put off any further. */
  taken(few: boolean): void
  cancel(): void
}

const QUIET_MS = 50

/** Runs `work` once nobody has taken a sandbox for 50 ms: making more takes the processor from the sandboxes of a burst. */
export const createQuietTimer = (work: () => void): QuietTimer => {
  let timer: NodeJS.Timeout | undefined
  return {
    taken(few) {
      if (!few) clearTimeout(timer)
      else if (timer !== undefined) return
      timer = setTimeout(() => {
        timer = undefined
        work()
      }, QUIET_MS).unref()
    },
    cancel() {
      clearTimeout(timer)
      timer = undefined
    },
  }
}
