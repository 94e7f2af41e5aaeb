import { BoxofficeError } from '@boxoffice/protocol'
import type { Channel, ChannelHandler } from './link.ts'

const DIAL_WITHIN_MS = 10_000

export type ChannelWaiter = { handler: ChannelHandler; resolve: (channel: Channel) => void; reject: (reason: unknown) => void }

/** Operations that found no idle channel, in the order in which they came. */
export class ChannelWaiters {
  readonly #waiters = new Set<ChannelWaiter>()

  /** Resolves with what is given to its waiter. Rejects when no channel has come in time, or when the signal aborts. */
  wait(handler: ChannelHandler, signal: AbortSignal | undefined): Promise<Channel> {
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        this.#waiters.delete(waiter)
        clearTimeout(timer)
        signal?.removeEventListener('abort', abort)
      }
      const waiter: ChannelWaiter = {
        handler,
        resolve: (channel) => {
          settle()
          resolve(channel)
        },
        reject: (reason) => {
          settle()
          reject(reason)
        },
      }
      const abort = (): void => waiter.reject(signal?.reason)
      const timer = setTimeout(
        () => waiter.reject(new BoxofficeError('BACKEND_UNAVAILABLE', 'The sandbox does not answer; try again', { retryAfter: 1 })),
        DIAL_WITHIN_MS,
      )
      this.#waiters.add(waiter)
      if (signal?.aborted) abort()
      else signal?.addEventListener('abort', abort, { once: true })
    })
  }

  first(): ChannelWaiter | undefined {
    const [first] = this.#waiters
    return first
  }

  rejectAll(reason: unknown): void {
    for (const waiter of this.#waiters) waiter.reject(reason)
  }
}
