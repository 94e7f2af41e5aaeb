import type { DiskFloor } from '../host/disk-floor.ts'
import type { ProviderSlot } from '../providers/slot.ts'
import { recoveringError } from '../sandbox/end.ts'
import type { SandboxManager } from '../sandboxes/manager.ts'

export type ReadinessOptions = {
  disk: DiskFloor
  slot: ProviderSlot
  manager: SandboxManager
  isRegistered: () => boolean
}

/** Why the agent cannot work now, for `/readyz`; empty when it can. */
export const unreadinessOf = ({ disk, slot, manager, isRegistered }: ReadinessOptions): string[] => [
  ...[disk.shortage() ?? []].flat().map((shortage) => `disk: ${shortage}`),
  ...(slot.reason === null ? [] : [`provider: ${slot.reason}`]),
  ...(slot.reason === null && manager.recovery.isUnderWay ? [`sandboxes: ${recoveringError().message}`] : []),
  ...(isRegistered() ? [] : ['broker: not registered yet']),
]
