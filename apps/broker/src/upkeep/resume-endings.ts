import type { SessionEffects } from '../sessions/effects.ts'
import type { Store } from '../store/store.ts'

export type ResumeEndingsOptions = { store: Store; effects: SessionEffects; now: () => number }

/** How long agents have, once brokers and database are there again, to find them, to answer and to tell what is left. */
const WITHIN_MS = 20_000

/**
 * Asks agents once more to end the sandboxes of sessions whose last events wait for a response: the broker that asked has ended before
 * it came, or could not write it while the database was away [contract 2.4]. To end what has ended already is answered alike.
 */
export async function resumeEndings({ store, effects, now }: ResumeEndingsOptions): Promise<void> {
  for (const id of await store.endings.resume(now() + WITHIN_MS)) {
    const session = await store.sessions.byId(id)
    if (session !== undefined) effects.perform(session, { type: 'destroy' })
  }
}
