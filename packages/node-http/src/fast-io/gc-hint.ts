import type { Readable } from 'node:stream'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { isFast } from './switches.ts'

/**
 * Every read of a stream allocates a buffer of up to 64 KiB outside the JavaScript heap, where it dies at once. The engine counts
 * those bytes but sees little garbage of its own, so what it does at 32 MiB is a full collection: two thirds of the time of a fast
 * stream (measured). A collection of the young generation, asked for before that, frees the same buffers for a tenth.
 */
const COLLECT_EVERY_BYTES = 6 * 1024 * 1024

type Collect = (options: { type: 'minor' }) => void

const findCollector = (): Collect | undefined => {
  try {
    setFlagsFromString('--expose-gc')
    const collect: unknown = runInNewContext('gc')
    return typeof collect === 'function' ? (collect as Collect) : undefined
  } catch {
    // An engine that does not offer it is only slower.
    return undefined
  }
}

const collect = findCollector()
let bytes = 0

/** Told of every such buffer that is passed on: of a client's body, of an archive, of a tunnel, by the relay. */
export const hintRead = (length: number): void => {
  if (!isFast('gcHint')) return
  bytes += length
  if (bytes < COLLECT_EVERY_BYTES) return
  bytes = 0
  collect?.({ type: 'minor' })
}

/**
 * Counts all that is read of a connection, whoever reads it: what `ws` only discards after a refusal is memory as well, and a hundred
 * clients that go on sending are a hundred MiB of it. To be called when something reads already; reading does not begin by it.
 */
export const hintReads = (stream: Readable): void => {
  const count = (chunk: Buffer): void => hintRead(chunk.length)
  stream.on('data', count)
}
