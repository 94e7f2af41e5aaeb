import type { Duplex } from 'node:stream'
import { breakOff } from './end-with.ts'

/**
 * Ends what belongs to two connected streams together: the end of one way is passed on by `pipe`; a stream that breaks off breaks the other,
 * and one that has closed after its end lets the other finish what it still has to write.
 */
export function tieTogether(one: Duplex, other: Duplex): void {
  follow(one, other)
  follow(other, one)
}

function follow(stream: Duplex, other: Duplex): void {
  stream.once('close', () => {
    if (other.destroyed) return
    if (!stream.readableEnded || stream.errored) return breakOff(other)
    // Nobody takes what the other sends from now on.
    stream.unpipe(other)
    other.unpipe(stream)
    other.resume()
    if (other.writableFinished) other.destroy()
    else other.once('finish', () => other.destroy()).end()
  })
}
