import type { Logger } from 'pino'
import type { ProviderSelector } from '../providers/provider-selector.ts'
import type { SandboxManager } from './manager.ts'
import type { Recovery } from './recovery.ts'

/** So that a sandbox that dies outside is known within five seconds [4-95]. */
const LOOK_EVERY_MS = 2000

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
  start(): Promise<void>
  close(): Promise<void>
}

export const createWatch = ({ selector, manager, recovery, onAdopted, log }: WatchOptions): Watch => {
  let adopted = false
  let timer: NodeJS.Timeout | undefined
  let looking: Promise<void> = Promise.resolve()
  let closed = false

  const look = async (): Promise<void> => {
    const available = await selector.look(manager.recovery.providers())
    if (!available || selector.provider === undefined) return
    if (adopted) return manager.inventory.verifyAll()
    adopted = await recovery.adopt(selector.provider)
    if (adopted) onAdopted()
  }

  const turn = (): void => {
    looking = look()
      .catch((err: unknown) => log.warn({ err }, 'the provider could not be asked about its sandboxes'))
      .finally(() => {
        if (!closed) timer = setTimeout(turn, LOOK_EVERY_MS)
      })
  }

  return {
    async start() {
      turn()
      await looking
    },
    async close() {
      closed = true
      clearTimeout(timer)
      await looking
      clearTimeout(timer)
    },
  }
}
