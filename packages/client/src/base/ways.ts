import { BoxofficeError, ConnectionError, isCode } from './errors.ts'

/** Where the dataplane of a session can be reached; the URLs are opaque, only suffixes are appended [C-42]. */
export type Way = {
  readonly httpBaseUrl: string
  readonly wsBaseUrl: string
  /** Undefined where an MVP broker does not say: then it is direct. */
  readonly mode: 'direct' | 'relay' | undefined
}

/** The ways to one sandbox: the negotiated one, and the relay when nobody answers on it. */
export type Ways = {
  readonly current: Way
  /** Something answered, be it a refusal. */
  worked(way: Way): void
  /** Nobody answered. `certain`: not even a connection was made. Resolves with whether there is another way to try now. */
  failed(way: Way, certain: boolean): Promise<boolean>
}

export type WaysOptions = {
  negotiated: Way
  /** Asks for the way through the relay; absent where the caller does not want it. */
  relayed?: (() => Promise<Way>) | undefined
  /** Told when another way has proved to work. */
  onChange(way: Way): void
}

/** A connection that breaks may have met a restart; without two in a row the direct way is not given up. */
const DOUBTS = 2
/** A broker that has no relay for this session is not asked again for so long. */
const ASK_AGAIN_MS = 5_000

/**
 * Falls back from direct to relay by itself (contract 3.11). The relay holds once it has worked: back to direct leads only a new
 * negotiation. Until then, as when the agent itself is away, both are tried in turn.
 */
export const createWays = ({ negotiated, relayed, onChange }: WaysOptions): Ways => {
  let current = negotiated
  let relay: Way | undefined
  let proven = false
  let doubts = 0
  let asking: Promise<Way | undefined> | undefined
  let askAgainAt = Number.NEGATIVE_INFINITY

  const ask = (): Promise<Way | undefined> => {
    if (relay !== undefined || relayed === undefined || performance.now() < askAgainAt) return Promise.resolve(relay)
    asking ??= relayed()
      .then((way) => {
        relay = way
        return way
      })
      .catch(() => {
        askAgainAt = performance.now() + ASK_AGAIN_MS
        return undefined
      })
      .finally(() => {
        asking = undefined
      })
    return asking
  }

  return {
    get current() {
      return current
    },
    worked(way) {
      doubts = 0
      if (way !== relay || way !== current || proven) return
      proven = true
      onChange(way)
    },
    async failed(way, certain) {
      if (way !== current) return true
      if (way === relay) {
        if (!proven) current = negotiated
        return !proven
      }
      if (way.mode === 'relay') return false
      doubts++
      if (!certain && doubts < DOUBTS) return false
      const other = await ask()
      if (other === undefined) return false
      if (current === way) current = other
      doubts = 0
      return true
    },
  }
}

/** What a runtime says when no connection was made, so that nothing can have been done. Browsers do not tell. */
const NEVER_CONNECTED: ReadonlySet<unknown> = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'UND_ERR_CONNECT_TIMEOUT',
])

/** Whether a request failed before anything of it was sent. */
export const neverConnected = (error: unknown): boolean => {
  const cause = error instanceof ConnectionError ? (error.cause as { cause?: { code?: unknown } } | undefined)?.cause : undefined
  return NEVER_CONNECTED.has(cause?.code)
}

/** Whether a failure says that the way leads nowhere: nobody answers, or the relay cannot reach the agent. */
export const isDeadEnd = (way: Way, error: unknown): boolean =>
  isCode(error, 'CONNECTION_FAILED') || (way.mode === 'relay' && isAgentAway(error))

/** The agent is away, which may pass. A sandbox that is gone goes by this name too, and does not come back. */
export const isAgentAway = (error: unknown): boolean =>
  error instanceof BoxofficeError && isCode(error, 'BACKEND_UNAVAILABLE') && !isCode(error, 'SANDBOX_LOST')
