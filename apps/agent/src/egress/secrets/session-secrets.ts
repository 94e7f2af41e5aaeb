import { setTimeout as delay } from 'node:timers/promises'
import { fromUnknown, SECRETS_AT_ONCE, type SessionSecretsResponse } from '@boxoffice/protocol'
import type { Logger } from 'pino'

export type SessionSecretsOptions = {
  /** Asks the broker for values of the session, at most `SECRETS_AT_ONCE` names at once. */
  fetch: (names: readonly string[]) => Promise<SessionSecretsResponse['secrets']>
  log: Logger
  /** Milliseconds that never jump. */
  now?: () => number
  /** How old values may become; by default 60 s. */
  everyMs?: number
}

/** The secrets of one session, in memory alone. */
export interface SessionSecrets {
  /** The value as the broker gave it last; undefined for a name that is not wanted, or that the session may not have. */
  get(name: string): string | undefined
  /**
   * These are the names that the session's policy uses now; values of others are forgotten. Resolves when the values are at most
   * `everyMs` old, or the broker could not be asked: the last values stay then. Costs nothing while they are young.
   */
  want(names: Iterable<string>): Promise<void>
  /** Asks for the values anew, whatever their age. Resolves as `want` does. */
  refresh(): Promise<void>
  /** Forgets all of them. */
  close(): void
}

const EVERY_MS = 60_000
/** For so long after a failure the broker is not asked again by itself, so that nothing waits for one that is away. */
const AFTER_FAILURE_MS = 5000
/** How long a request for names that have values waits for younger ones. */
const PATIENCE_MS = 1000

/** Begins without values. The values are asked for again once they are `everyMs` old, while somebody uses them. */
export const createSessionSecrets = ({
  fetch,
  log,
  now = () => performance.now(),
  everyMs = EVERY_MS,
}: SessionSecretsOptions): SessionSecrets => {
  const values = new Map<string, string>()
  let wanted: ReadonlySet<string> = new Set()
  /** Names that the broker was asked for, and of these the ones that it has answered for, with a value or without one. */
  let asked: ReadonlySet<string> = new Set()
  let answered: ReadonlySet<string> = new Set()
  let askAgainAt = Number.NEGATIVE_INFINITY
  let running: { names: ReadonlySet<string>; done: Promise<void> } | undefined
  let isUsed = false
  let isClosed = false

  const ask = async (names: ReadonlySet<string>): Promise<void> => {
    try {
      const given = new Map<string, string>()
      const all = [...names]
      for (let at = 0; at < all.length; at += SECRETS_AT_ONCE)
        for (const [name, { value }] of Object.entries(await fetch(all.slice(at, at + SECRETS_AT_ONCE)))) given.set(name, value)
      if (isClosed) return
      values.clear()
      for (const [name, value] of given) if (wanted.has(name)) values.set(name, value)
      answered = common(names, wanted)
      askAgainAt = now() + everyMs
    } catch (thrown) {
      if (isClosed) return
      const { code, message } = fromUnknown(thrown)
      // The session has ended, or is on another agent: nothing is this one's any more.
      if (code === 'BINDING_NOT_FOUND') values.clear()
      log.warn({ code, reason: message }, 'the broker gave no secrets')
      askAgainAt = now() + Math.min(AFTER_FAILURE_MS, everyMs)
    }
    asked = common(names, wanted)
  }

  /** One request at a time; one for other names follows the present one. */
  const refresh = (): Promise<void> => {
    if (isClosed || wanted.size === 0) return Promise.resolve()
    if (running !== undefined) return running.names === wanted ? running.done : running.done.then(refresh)
    isUsed = false
    const names = wanted
    const done = ask(names).finally(() => {
      running = undefined
    })
    running = { names, done }
    return done
  }

  const timer = setInterval(() => {
    if (isUsed) void refresh()
  }, everyMs).unref()

  return {
    get(name) {
      isUsed = true
      return values.get(name)
    },
    async want(names) {
      const next = new Set(names)
      if (!isSame(next, wanted)) {
        wanted = next
        asked = common(asked, next)
        answered = common(answered, next)
        for (const name of values.keys()) if (!next.has(name)) values.delete(name)
      }
      if (includes(asked, wanted) && now() < askAgainAt) return
      const refreshed = refresh()
      await (includes(answered, wanted) ? Promise.race([refreshed, delay(PATIENCE_MS, undefined, { ref: false })]) : refreshed)
    },
    refresh,
    close() {
      isClosed = true
      clearInterval(timer)
      values.clear()
      wanted = new Set()
    },
  }
}

const includes = (all: ReadonlySet<string>, some: ReadonlySet<string>): boolean => [...some].every((name) => all.has(name))
const isSame = (a: ReadonlySet<string>, b: ReadonlySet<string>): boolean => a.size === b.size && includes(a, b)
const common = (a: ReadonlySet<string>, b: ReadonlySet<string>): ReadonlySet<string> => new Set([...a].filter((name) => b.has(name)))
