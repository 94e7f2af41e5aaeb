import { BoundedCache } from '@boxoffice/kit/bounded-cache'
import type { EgressFact } from '@boxoffice/protocol'

type Decision = Omit<EgressFact, 'times'>

/** The same decision is told once in this time, with how often it was made. */
const AGAIN_AFTER_MS = 60_000
/** Different decisions are told in this time at most: a sandbox can make up names without end. */
const MOST_IN_TIME = 60
const KEYS = 1000

/**
 * Tells a session what the proxy decided. What repeats is counted, and told with the first that comes a minute later; so a program that
 * tries again and again makes one event a minute.
 */
export const createDecisionJournal = (tell: (fact: EgressFact) => void, now: () => number = () => performance.now()) => {
  const told = new BoundedCache<string, { at: number; untold: number }>(KEYS)
  let window = { begun: now(), told: 0 }

  return (decision: Decision): void => {
    const at = now()
    if (at - window.begun >= AGAIN_AFTER_MS) window = { begun: at, told: 0 }
    const { allowed, host, port, code, rule, method } = decision
    const key = JSON.stringify([allowed, host, port, code, rule, method])
    const before = told.get(key)
    const untold = before?.untold ?? 0
    const isDue = before === undefined || at - before.at >= AGAIN_AFTER_MS
    if (!isDue || window.told >= MOST_IN_TIME) {
      told.set(key, { at: before?.at ?? Number.NEGATIVE_INFINITY, untold: untold + 1 })
      return
    }
    window.told++
    told.set(key, { at, untold: 0 })
    tell({ ...decision, times: untold + 1 })
  }
}
