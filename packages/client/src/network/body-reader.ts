import { deferred } from '@boxoffice/kit/deferred'
import { SilenceError } from '../base/errors.ts'
import { Watchdog } from './watchdog.ts'

const longest = new WeakMap<Response, number>()

/** Sets how long the body of a response may be silent while somebody waits for it; without this it may be for ever. */
export const limitSilence = (response: Response, silentMs: number): void => void longest.set(response, silentMs)

/**
 * The body of a response, piece by piece. While nothing comes for as long as `limitSilence` has set, a read rejects with
 * `SilenceError`. Time in which nobody reads does not count.
 */
export class BodyReader {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>> | undefined
  readonly #silentMs: number | undefined
  #watchdog: Watchdog | undefined
  #onSilence: (() => void) | undefined

  constructor(response: Response) {
    this.#reader = response.body?.getReader()
    this.#silentMs = longest.get(response)
  }

  /** The next piece, which is not empty; undefined at the end. */
  async read(): Promise<Uint8Array<ArrayBuffer> | undefined> {
    for (;;) {
      const { done, value } = await this.#next()
      if (done) this.#watchdog?.stop()
      if (done || value.length > 0) return value
    }
  }

  async cancel(reason?: unknown): Promise<void> {
    this.#watchdog?.stop()
    await this.#reader?.cancel(reason).catch(() => {})
  }

  async #next(): Promise<ReadableStreamReadResult<Uint8Array<ArrayBuffer>>> {
    if (this.#reader === undefined) return { done: true, value: undefined }
    const silentMs = this.#silentMs
    if (silentMs === undefined) return await this.#reader.read()
    const silence = deferred<never>()
    this.#onSilence = () => silence.reject(new SilenceError(silentMs, { final: false, certain: false }))
    if (this.#watchdog === undefined) this.#watchdog = new Watchdog(() => this.#onSilence?.(), silentMs)
    else this.#watchdog.heard(silentMs)
    try {
      return await Promise.race([this.#reader.read(), silence.promise])
    } catch (error) {
      await this.cancel(error)
      throw error
    } finally {
      this.#onSilence = undefined
    }
  }
}
