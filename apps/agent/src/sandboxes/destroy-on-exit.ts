import type { SandboxReport } from '@boxoffice/protocol'
import type { Logger } from 'pino'
import type { ProviderSelector } from '../providers/provider-selector.ts'
import type { SandboxManager } from './manager.ts'
import type { Recovery } from './recovery.ts'

export type DestroyOnExitOptions = { selector: ProviderSelector; manager: SandboxManager; recovery: Recovery; log: Logger }

/** Leaves nothing of this install running [2-27]; those of which no record says anything included. Returns what has ended. */
export const destroyOnExit = async ({ selector, manager, recovery, log }: DestroyOnExitOptions): Promise<SandboxReport[]> => {
  if (selector.provider !== undefined && manager.recovery.isUnderWay) await recovery.adopt(selector.provider)
  const ended = await manager.close({ destroyAll: true })
  await recovery.settle([])
  log.info({ sandboxes: ended.length }, 'the sandboxes have ended with the agent (--destroy-on-exit)')
  return ended
}
