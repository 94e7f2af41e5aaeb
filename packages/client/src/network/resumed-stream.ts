import { sleep } from '@boxoffice/kit/sleep'
import { BoxofficeError } from '../base/errors.ts'
import { anySignal } from '../base/signals.ts'
import { backoffMs } from './backoff.ts'
import { BodyReader } from './body-reader.ts'
import { failed } from './http.ts'

/** Asks for the bytes from `start` on, of the version with this ETag only. */
export type AskForPart = (start: number, etag: string, signal: AbortSignal | undefined) => Promise<Response>

export type ResumedStreamOptions = {
  /** What is read, for messages. */
  name: string
  signal: AbortSignal | undefined
  /** How to go on; absent where that cannot be, as with an archive, which is made while it is sent. */
  resume?: { from: number; windowMs: number; ask: AskForPart } | undefined
}

/**
 * The body of a response as a stream that goes on after a dropped connection, with the next byte. Where it cannot, it ends with
 * a typed error: `ConnectionError`, or the reason of an abort.
 */
export const resumedStream = (first: Response, options: ResumedStreamOptions): ReadableStream<Uint8Array<ArrayBuffer>> => {
  const life = new AbortController()
  const signal = anySignal(options.signal, life.signal)
  const length = first.headers.get('content-length')
  const size = length === null ? undefined : Number(length)
  const goOn = resumption(first, options, signal)
  let reader = new BodyReader(first)
  let received = 0

  const next = async (): Promise<Uint8Array<ArrayBuffer> | undefined> => {
    for (;;) {
      try {
        // A byte stream takes no empty chunk; this reader gives none.
        return await reader.read()
      } catch (error) {
        // All of it came, only its end did not.
        if (received === size) return undefined
        const lost = failed(first.url, error, signal)
        if (signal?.aborted) throw lost
        reader = new BodyReader(await goOn(received, lost))
      }
    }
  }

  return new ReadableStream({
    type: 'bytes',
    async pull(controller) {
      const bytes = await next()
      if (life.signal.aborted) return
      if (bytes === undefined) {
        controller.close()
        controller.byobRequest?.respond(0)
      } else {
        received += bytes.length
        controller.enqueue(bytes)
      }
    },
    async cancel(reason) {
      life.abort(reason)
      await reader.cancel(reason)
    },
  })
}

/** Gives the response that goes on behind the first `received` bytes, until there was no new byte for the window. */
const resumption = (first: Response, { name, resume }: ResumedStreamOptions, signal: AbortSignal | undefined) => {
  const etag = first.headers.get('etag')
  let progress = 0
  let failingSince = Number.NaN
  let attempt = 0
  return async (received: number, lost: unknown): Promise<Response> => {
    // A weak tag says that two versions mean the same, not that their bytes are equal.
    if (resume === undefined || etag === null || !etag.startsWith('"')) throw lost
    if (received > progress || Number.isNaN(failingSince)) {
      progress = received
      failingSince = performance.now()
      attempt = 0
    } else if (performance.now() - failingSince > resume.windowMs) throw lost
    if (attempt++ > 0) await sleep(backoffMs(attempt), signal)
    const start = resume.from + received
    const response = await resume.ask(start, etag, signal)
    if (response.status === 206 && response.headers.get('content-range')?.startsWith(`bytes ${start}-`)) return response
    await response.body?.cancel()
    throw new BoxofficeError('PRECONDITION_FAILED', `${JSON.stringify(name)} has changed while it was read; read it again`, { status: 412 })
  }
}
