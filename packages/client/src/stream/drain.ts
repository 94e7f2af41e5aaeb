import { GapError } from '../base/errors.ts'

/**
 * Reads output for nobody to its end, so that it does not hold the process up. Goes on behind a gap: lost bytes that nobody wants are
 * no reason to stop. `begun` is the reader that has the stream already; a `next` of it may be pending. Rejects where the end of the
 * stream cannot be known.
 */
export const drain = async (output: AsyncIterable<Uint8Array>, begun?: AsyncIterator<Uint8Array>): Promise<void> => {
  let pieces = begun ?? output[Symbol.asyncIterator]()
  let isOwn = begun === undefined
  for (;;) {
    try {
      if ((await pieces.next()).done !== true) continue
      if (isOwn) return
      // The `next` that was pending may have had a gap, with which a reader ends too.
    } catch (error) {
      if (!(error instanceof GapError)) throw error
    }
    // A reader ends with the gap that it throws; the next one begins behind it.
    pieces = output[Symbol.asyncIterator]()
    isOwn = true
  }
}
