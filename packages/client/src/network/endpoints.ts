import { BoxofficeError, ConnectionError, isCode } from '../base/errors.ts'

/** Where the dataplane of a session can be reached; the URLs are opaque, only suffixes are appended [C-42]. */
export type Endpoint = {
  readonly httpBaseUrl: string
  readonly wsBaseUrl: string
  /** Undefined where an MVP broker does not say: then it is direct. */
  readonly mode: 'direct' | 'relay' | undefined
}

/** The endpoints of one sandbox: the negotiated one, and the relay when nobody answers on it. */
export type Endpoints = {
  readonly current: Endpoint
  /** Something answered, be it a refusal. */
  worked(endpoint: Endpoint): void
  /** Nobody answered. `certain`: not even a connection was made. Resolves with whether there is another endpoint to try now. */
  failed(endpoint: Endpoint, certain: boolean): Promise<boolean>
}

export type EndpointsOptions = {
  negotiated: Endpoint
  /** Asks for the endpoint of the relay; absent where the caller does not want it. */
  relayed?: (() => Promise<Endpoint>) | undefined
  /** Called when another endpoint has proved to work. */
  onChange(endpoint: Endpoint): void
}

/** A connection that breaks may have met a restart; without two in a row the direct endpoint is not given up. */
const DOUBTS = 2
/** A broker that has no relay for this session is not asked again for so long. */
const ASK_AGAIN_MS = 5_000

/**
 * Falls back from direct to relay by itself (contract 3.11). The relay holds once it has worked: back to direct leads only a new
 * negotiation. Until then, as when the agent itself is away, both are tried in turn.
 */
export const createEndpoints = ({ negotiated, relayed, onChange }: EndpointsOptions): Endpoints => {
  let current = negotiated
  let relay: Endpoint | undefined
  let proven = false
  let doubts = 0
  let asking: Promise<Endpoint | undefined> | undefined
  let askAgainAt = Number.NEGATIVE_INFINITY

  const ask = (): Promise<Endpoint | undefined> => {
    if (relay !== undefined || relayed === undefined || performance.now() < askAgainAt) return Promise.resolve(relay)
    asking ??= relayed()
      .then((endpoint) => {
        relay = endpoint
        return endpoint
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
    worked(endpoint) {
      doubts = 0
      if (endpoint !== relay || endpoint !== current || proven) return
      proven = true
      onChange(endpoint)
    },
    async failed(endpoint, certain) {
      if (endpoint !== current) return true
      if (endpoint === relay) {
        if (!proven) current = negotiated
        return !proven
      }
      if (endpoint.mode === 'relay') return false
      doubts++
      if (!certain && doubts < DOUBTS) return false
      const other = await ask()
      if (other === undefined) return false
      if (current === endpoint) current = other
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

/** Whether a failure says that the endpoint leads nowhere: nobody answers, or the relay cannot reach the agent. */
export const isDeadEnd = (endpoint: Endpoint, error: unknown): boolean =>
  isCode(error, 'CONNECTION_FAILED') || (endpoint.mode === 'relay' && isAgentAway(error))

/** The agent is away, which may pass. A sandbox that is gone goes by this name too, and does not come back. */
export const isAgentAway = (error: unknown): boolean =>
  error instanceof BoxofficeError && isCode(error, 'BACKEND_UNAVAILABLE') && !isCode(error, 'SANDBOX_LOST')
