import { BoundedCache } from '@boxoffice/kit/bounded-cache'
import { z } from 'zod'
import type { Principal } from '../../access/principals.ts'

const Id = z.union([z.string(), z.number()])
const Asked = z.looseObject({ id: Id, method: z.string() })
const Cancelled = z.looseObject({ method: z.literal('notifications/cancelled'), params: z.looseObject({ requestId: Id }) })
const Initialize = z.looseObject({ id: Id, method: z.literal('initialize') })

/** One more takes the place of the oldest, which then ends with its connection only. */
const MAX_IN_FLIGHT = 10_000

/** One exchange: `signal` ends when the client cancels one of its requests. */
export type Exchange = { signal: AbortSignal; sessionId: string | undefined; end(): void }

/**
 * Requests in flight of the revisions of 2025, in which a cancellation is a request of its own. They are found again by the session
 * id that `initialize` is answered with; nothing else is kept for it. Those of 2026 end with their connection.
 */
export class Cancellations {
  readonly #inFlight = new BoundedCache<string, AbortController>(MAX_IN_FLIGHT)

  /** `sessionId` is what the client has named. That of the result is a new one, for a client that begins. */
  begin(body: unknown, { tenant, id: principal }: Pick<Principal, 'tenant' | 'id'>, sessionId: string | undefined): Exchange {
    const messages = Array.isArray(body) ? body : [body]
    const controller = new AbortController()
    const keys: string[] = []
    const keyOf = (requestId: string | number): string => JSON.stringify([tenant, principal, sessionId, requestId])
    for (const message of sessionId === undefined ? [] : messages) {
      const cancelled = Cancelled.safeParse(message)
      if (cancelled.success) this.#inFlight.get(keyOf(cancelled.data.params.requestId))?.abort()
      const asked = Asked.safeParse(message)
      if (asked.success) keys.push(keyOf(asked.data.id))
    }
    for (const key of keys) this.#inFlight.set(key, controller)
    return {
      signal: controller.signal,
      sessionId: messages.some((message) => Initialize.safeParse(message).success) ? crypto.randomUUID() : undefined,
      end: () => {
        for (const key of keys) if (this.#inFlight.get(key) === controller) this.#inFlight.delete(key)
      },
    }
  }
}
