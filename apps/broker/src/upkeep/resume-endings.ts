import type { Log } from '../host/log.ts'
import type { SessionEffects } from '../sessions/effects.ts'
import type { Store } from '../store/store.ts'

export type ResumeEndingsOptions = { store: Store; effects: SessionEffects; log: Log; now: () => number }

/** How long agents have, after the start of a broker, to find it again, to answer and to tell what is left. */
const WITHIN_MS = 20_000

/**
 * Asks agents once more to end the sandboxes of sessions whose last events wait for a response: the broker that asked has ended before
 * it came [contract 2.4]. To end what has ended already is answered alike. A full disk is no reason not to start.
 */
export async function resumeEndings({ store, effects, log, now }: ResumeEndingsOptions): Promise<void> {
  try {
    for (const id of await store.endings.resume(now() + WITHIN_MS)) {
      const session = await store.sessions.byId(id)
      if (session !== undefined) effects.perform(session, { type: 'destroy' })
    }
  } catch (thrown) {
    log.warn({ err: thrown }, 'the last events of sessions do not wait for their agents any longer')
  }
}
