import { isFast } from '@boxoffice/node-http'
import { LIMITS } from '@boxoffice/protocol'

/** What a message can need, its payload and the longest head; and what is read at once. */
export const POOLED_BYTES = LIMITS.chunkBytes
/** Enough for the backlog of a few fast streams; what is beyond them is the garbage collector's. */
const KEPT = 32

const free: Buffer[] = []

/** Memory for one write, used over and over: new memory of this size for each would cost more than the bytes that go into it. */
export const takeBuffer = (): Buffer => (isFast('bufferPool') ? free.pop() : undefined) ?? Buffer.allocUnsafeSlow(POOLED_BYTES)

export const giveBuffer = (buffer: Buffer): void => {
  if (free.length < KEPT && isFast('bufferPool')) free.push(buffer)
}
