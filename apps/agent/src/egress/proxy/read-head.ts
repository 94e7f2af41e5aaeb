import type { Duplex } from 'node:stream'

/** What a parser makes of the bytes so far: undefined where it needs more. `used` bytes are consumed, the rest stays in the stream. */
export type Parse<T> = (bytes: Buffer) => { value: T; used: number } | undefined

/** Why a head could not be read. */
export class HeadFault extends Error {
  readonly why: 'too_large' | 'too_slow' | 'ended'

  constructor(why: HeadFault['why']) {
    super(why)
    this.why = why
  }
}

/** Of one head: bytes, and milliseconds until it has to be there. */
export const HEAD_LIMIT_BYTES = 16 * 1024
export const HEAD_LIMIT_MS = 10_000

/**
 * Reads the beginning of a stream with a parser and puts back what the parser does not use, so that the next reader gets it. Rejects with
 * `HeadFault`, or with what the parser throws. At most `limitBytes` and one read are held.
 */
export function readHead<T>(
  stream: Duplex,
  parse: Parse<T>,
  { limitBytes = HEAD_LIMIT_BYTES, limitMs = HEAD_LIMIT_MS }: { limitBytes?: number; limitMs?: number } = {},
): Promise<T> {
  return new Promise((resolve, reject) => {
    let bytes: Buffer = Buffer.alloc(0)
    const settle = (left: Buffer): void => {
      clearTimeout(timer)
      stream.off('readable', onReadable).off('end', onEnd).off('close', onEnd)
      if (left.length > 0 && !stream.destroyed) stream.unshift(left)
    }
    const fail = (error: unknown): void => {
      settle(bytes)
      reject(error)
    }
    const onReadable = (): void => {
      const chunk = stream.read() as Buffer | null
      if (chunk === null) return
      bytes = bytes.length === 0 ? chunk : Buffer.concat([bytes, chunk])
      try {
        const found = parse(bytes)
        if (found !== undefined) {
          settle(bytes.subarray(found.used))
          resolve(found.value)
        } else if (bytes.length >= limitBytes) fail(new HeadFault('too_large'))
      } catch (error) {
        fail(error)
      }
    }
    const onEnd = (): void => {
      bytes = Buffer.alloc(0)
      fail(new HeadFault('ended'))
    }
    const timer = Number.isFinite(limitMs) ? setTimeout(() => fail(new HeadFault('too_slow')), limitMs) : undefined
    stream.on('readable', onReadable).on('end', onEnd).on('close', onEnd)
    if (stream.destroyed || stream.readableEnded) onEnd()
    else onReadable()
  })
}
