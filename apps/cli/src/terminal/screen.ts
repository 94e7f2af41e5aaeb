import { GapError, type Shell } from '@boxoffice/client'

/** Saves the cursor, lets the whole screen scroll again, and puts the cursor back. */
const WHOLE_SCREEN = new TextEncoder().encode('\x1b7\x1b[r\x1b8')

/**
 * What to write to a terminal so that it shows a shell. The replay was drawn for another size: a scroll region that a program had set
 * for it must not confine what the program draws for this one. What was missed is drawn anew by programs that fill the screen.
 */
export async function* screenOf({ output, replay }: Shell): AsyncGenerator<Uint8Array, void, undefined> {
  let left = replay === undefined ? 0 : replay.to - replay.from
  for (;;) {
    try {
      for await (const bytes of output) {
        const replayed = bytes.subarray(0, left)
        if (replayed.length > 0) yield replayed
        left -= replayed.length
        if (replayed.length > 0 && left === 0) yield WHOLE_SCREEN
        if (replayed.length < bytes.length) yield bytes.subarray(replayed.length)
      }
      return
    } catch (error) {
      if (!(error instanceof GapError)) throw error
      left = 0
    }
  }
}
