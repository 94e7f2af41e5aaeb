import type { BrokerClient } from './broker-client.ts'

/** The one clock that decides about tokens and leases: the broker's, as this agent knows it [C-77]. */
export interface BrokerClock {
  /** Unix seconds. */
  now(): number
  /** How far the broker's clock is ahead of this machine's; for the next run, which begins without having heard it. */
  readonly offsetMs: number
  /** A response said that it was `brokerTimeMs`; it had been asked for at `askedAt`, by the monotonic clock. */
  report(brokerTimeMs: number, askedAt: number): void
}

export type BrokerClockOptions = {
  /** What an earlier run had learned. */
  offsetMs: number
  /** This machine's clock, Unix milliseconds. It may be wrong, and may jump. */
  wall: () => number
  /** Milliseconds. */
  monotonic?: () => number
}

/** A response that took longer says too little about when it was given, once a better one is known. */
const PROMPT_MS = 2000

export const createBrokerClock = ({ offsetMs, wall, monotonic = () => performance.now() }: BrokerClockOptions): BrokerClock => {
  /** What the broker's clock showed at a moment of the monotonic one, so that a jump of the machine's is nothing. */
  let known: { timeMs: number; at: number } | undefined
  const nowMs = (): number => (known === undefined ? wall() + offsetMs : known.timeMs + (monotonic() - known.at))
  return {
    now: () => nowMs() / 1000,
    get offsetMs() {
      return Math.round(nowMs() - wall())
    },
    report(brokerTimeMs, askedAt) {
      const at = monotonic()
      const took = at - askedAt
      if (known !== undefined && took > PROMPT_MS) return
      known = { timeMs: brokerTimeMs + took / 2, at }
    },
  }
}

/** The same client, by whose responses the clock is set. `heard` is called after each of them. */
export const listenForTime = (broker: BrokerClient, clock: BrokerClock, heard: () => Promise<void>): BrokerClient => {
  const listen = async <T extends { broker_time_ms?: number | undefined }>(ask: () => Promise<T>): Promise<T> => {
    const askedAt = performance.now()
    const answer = await ask()
    if (answer.broker_time_ms !== undefined) {
      clock.report(answer.broker_time_ms, askedAt)
      await heard()
    }
    return answer
  }
  return {
    register: (request, signal) => listen(() => broker.register(request, signal)),
    heartbeat: (agent, request, signal) => listen(() => broker.heartbeat(agent, request, signal)),
    secrets: (agent, request, signal) => broker.secrets(agent, request, signal),
    jwks: () => broker.jwks(),
    preview: (agent, host) => broker.preview(agent, host),
    enterPreview: (agent, host, code) => broker.enterPreview(agent, host, code),
  }
}
