import { BoundedCache } from '@boxoffice/kit/bounded-cache'
import { TokenBuckets } from '@boxoffice/kit/token-buckets'
import { BoxofficeError, type PreviewRoute, parsePreviewHost } from '@boxoffice/protocol'

export type ExposedPortsOptions = {
  /** Asks the broker what a host is; null: nothing, or nothing any more. Rejects while the broker is away. */
  ask: (hostname: string) => Promise<PreviewRoute | null>
  /** Monotonic milliseconds. */
  monotonic?: () => number
}

/** What the broker has exposed of this agent's sandboxes. In memory alone: after a restart it is asked for, host by host. */
export interface ExposedPorts {
  /** What the host is now; undefined where nothing is exposed by that name. Throws BACKEND_UNAVAILABLE while nobody can say. */
  find(hostname: string): Promise<PreviewRoute | undefined>
  /** What is known of it without asking. */
  known(hostname: string): PreviewRoute | undefined
  /** All that is exposed of a sandbox from now on. */
  replace(sandboxId: string, routes: readonly PreviewRoute[]): void
  /** Calls back when what is known of some host has changed. */
  onChange(listener: () => void): void
}

const MAX_HOSTS = 10_000
/** A word of the broker that has not come through is made up for within this. */
const FRESH_MS = 60_000
/** Of hosts that nobody has exposed: who tries names must not make the broker look each one up. */
const QUESTIONS = { perSecond: 20, burst: 100 }

type Known = { route: PreviewRoute | undefined; at: number }

export const createExposedPorts = ({ ask, monotonic = () => performance.now() }: ExposedPortsOptions): ExposedPorts => {
  const hosts = new BoundedCache<string, Known>(MAX_HOSTS)
  const asking = new Map<string, Promise<PreviewRoute | undefined>>()
  const questions = new TokenBuckets(QUESTIONS, monotonic)
  const listeners = new Set<() => void>()
  let version = 0

  const learn = (hostname: string, route: PreviewRoute | undefined): void => {
    const before = hosts.get(hostname)
    hosts.set(hostname, { route, at: monotonic() })
    if (before?.route !== undefined && JSON.stringify(before.route) !== JSON.stringify(route)) tell()
  }
  const tell = (): void => {
    for (const listener of [...listeners]) listener()
  }

  const question = async (hostname: string): Promise<PreviewRoute | undefined> => {
    if (!questions.take('').ok)
      throw new BoxofficeError('RATE_LIMITED', 'Too many unknown preview hosts were asked for; try again', { retryAfter: 1 })
    const before = version
    const route = (await ask(hostname)) ?? undefined
    // What was told meanwhile is newer than this answer.
    if (before === version) learn(hostname, route)
    return before === version ? route : hosts.get(hostname)?.route
  }

  return {
    async find(hostname) {
      const known = hosts.get(hostname)
      if (known !== undefined && monotonic() - known.at < FRESH_MS) return known.route
      const asked = asking.get(hostname) ?? question(hostname).finally(() => asking.delete(hostname))
      asking.set(hostname, asked)
      // While the broker is away, what it said last holds.
      return known?.route === undefined ? asked : asked.catch(() => known.route)
    },
    known: (hostname) => hosts.get(hostname)?.route,
    replace(sandboxId, routes) {
      version++
      const now = new Set(routes.map(({ url }) => new URL(url).hostname))
      for (const [hostname, { route }] of [...hosts])
        if (route?.sandbox_id === sandboxId && !now.has(hostname)) hosts.set(hostname, { route: undefined, at: monotonic() })
      for (const route of routes) {
        const { hostname } = new URL(route.url)
        if (parsePreviewHost(hostname)?.port === route.port) hosts.set(hostname, { route, at: monotonic() })
      }
      tell()
    },
    onChange(listener) {
      listeners.add(listener)
    },
  }
}
