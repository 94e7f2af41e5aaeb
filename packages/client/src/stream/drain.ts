import { GapError } from '../base/errors.ts'

/**
 * Reads output for nobody to its end, so that it does not hold the process up. Goes on behind a gap: lost bytes that nobody wants are
 * no reason to stop. `begun` is the reader that has the stream already. Rejects where the end of the stream cannot be known.
 */
export const drain = async (
  output: AsyncIterable<Uint8Array>,
  begun: AsyncIterator<Uint8Array> = output[Symbol.asyncIterator](),
): Promise<void> => {
  let pieces = begun
  for (;;) {
    try {
      if ((await pieces.next()).done === true) return
    } catch (error) {
      if (!(error instanceof GapError)) throw error
      // A reader ends with the gap that it throws; the next one begins behind it.
      pieces = output[Symbol.asyncIterator]()
    }
  }
}
