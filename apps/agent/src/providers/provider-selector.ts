import { BoxofficeError, type ProviderReport } from '@boxoffice/protocol'
import type { Logger } from 'pino'
import { abilitiesOf, type Candidate, type Provider } from '../sandbox/provider.ts'

/** The agent's provider: the first candidate that is available, once there is one. */
export interface ProviderSelector {
  /** Throws BACKEND_UNAVAILABLE with what every candidate said. */
  require(): Provider
  readonly provider: Provider | undefined
  /** Why there is none that works, else null. */
  readonly reason: string | null
  report(): ProviderReport
  /**
   * Looks for one now; true when there is one. While sandboxes of an earlier run wait for the providers of these names, no other is
   * taken: it could not find them.
   */
  look(awaited?: ReadonlySet<string>): Promise<boolean>
  close(): Promise<void>
}

/** Tries candidates in order [2-32]. The first that works stays for good: its sandboxes must be found again by the same one. */
export const createProviderSelector = (candidates: readonly Candidate[], log: Logger): ProviderSelector => {
  const opened = new Map<Candidate, Provider>()
  let provider: Provider | undefined
  let reason: string | null = 'the provider has not been looked for yet'

  const tryCandidate = async (candidate: Candidate): Promise<string | null> => {
    try {
      const tried = opened.get(candidate) ?? (await candidate.open())
      opened.set(candidate, tried)
      const status = await tried.probe()
      if (!status.available) return status.reason
      provider = tried
      log.info(
        { provider: tried.name, isolation: tried.capabilities.isolation, source: candidate.address ?? candidate.name },
        'provider available',
      )
      return null
    } catch (error) {
      return error instanceof Error ? error.message : String(error)
    }
  }

  const find = async (awaited: ReadonlySet<string>): Promise<string | null> => {
    const reasons: string[] = []
    const those = candidates.filter(({ name }) => awaited.has(name))
    // Where none of them is a candidate any more, the operator has chosen another provider.
    const tried = those.length > 0 ? those : candidates
    for (const candidate of tried) {
      const why = await tryCandidate(candidate)
      if (why === null) return null
      reasons.push(`${candidate.name}: ${why}`)
    }
    if (tried.length < candidates.length) reasons.push('sandboxes of an earlier run wait for it, so no other provider is tried')
    return reasons.join('; ')
  }

  return {
    get provider() {
      return provider
    },
    get reason() {
      return reason
    },
    require() {
      if (provider === undefined || reason !== null) {
        throw new BoxofficeError('BACKEND_UNAVAILABLE', `no provider is available: ${reason ?? 'none'}`, { retryAfter: 5 })
      }
      return provider
    },
    report: () => ({
      name: provider?.name ?? null,
      isolation: provider?.capabilities.isolation ?? null,
      available: provider !== undefined && reason === null,
      reason,
      suspend: [...(provider?.capabilities.suspend ?? [])],
      ...(provider === undefined ? {} : { capabilities: abilitiesOf(provider.capabilities) }),
    }),
    async look(awaited = new Set()) {
      const before = reason
      if (provider === undefined) reason = await find(awaited)
      else {
        const status = await provider.probe()
        reason = status.available ? null : status.reason
      }
      if (reason !== null && reason !== before)
        log.warn({ reason, tried: candidates.map(({ name, address }) => address ?? name) }, 'no provider is available')
      return reason === null
    },
    async close() {
      await Promise.all([...opened.values()].map((each) => each.close()))
    },
  }
}
