import { withTimeout } from '@boxoffice/kit/with-timeout'
import type { Logger } from 'pino'
import type { ProviderSelector } from '../providers/provider-selector.ts'
import type { SandboxManager } from './manager.ts'
import type { Recovery } from './recovery.ts'

/** So that a sandbox that dies outside is known within five seconds [4-95]. */
const LOOK_EVERY_MS = 2000
/** A broker gives up an agent that is silent for long (`agent_lost_after`): one with thousands of sandboxes registers before it has them all. */
const START_WITHIN_MS = 10_000

export type WatchOptions = {
  selector: ProviderSelector
  manager: SandboxManager
  recovery: Recovery
  /** What an earlier run left has been adopted. */
  onAdopted: () => void
  log: Logger
}

/**
 * Looks after the provider and, with it, after every sandbox. What an earlier run left is adopted once the provider has listed its
 * sandboxes; each look tries again until then.
 */
export interface Watch {
  /** Resolves after the first look, which adopts; after ten seconds the adoption goes on in the background. */
  start(): Promise<void>
  /** Ends an adoption that is under way: the next run finds what is left. */
  close(): Promise<void>
}

export const createWatch = ({ selector, manager, recovery, onAdopted, log }: WatchOptions): Watch => {
  let adopted = false
  let timer: NodeJS.Timeout | undefined
  let looking: Promise<void> = Promise.resolve()
  const closing = new AbortController()

  const look = async (): Promise<void> => {
    const available = await selector.look(manager.recovery.providers())
    if (!available || selector.provider === undefined) return
    if (adopted) return manager.inventory.verifyAll()
    adopted = await recovery.adopt(selector.provider, closing.signal)
    if (adopted) onAdopted()
  }

  const turn = (): void => {
    looking = look()
      .catch((err: unknown) => log.warn({ err }, 'the provider could not be asked about its sandboxes'))
      .finally(() => {
        if (!closing.signal.aborted) timer = setTimeout(turn, LOOK_EVERY_MS)
      })
  }

  return {
    async start() {
      turn()
      await withTimeout(looking, START_WITHIN_MS, () => {})
    },
    async close() {
      closing.abort()
      clearTimeout(timer)
      await looking
      clearTimeout(timer)
    },
  }
}
