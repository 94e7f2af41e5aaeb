import type { DiskFloor } from '../host/disk-floor.ts'
import type { ProviderSelector } from '../providers/provider-selector.ts'
import { recoveringError } from '../sandbox/end.ts'
import type { SandboxManager } from '../sandboxes/manager.ts'

export type ReadinessOptions = {
  disk: DiskFloor
  selector: ProviderSelector
  manager: SandboxManager
  isRegistered: () => boolean
}

/** Why the agent cannot work now, for `/readyz`; empty when it can. */
export const unreadinessOf = ({ disk, selector, manager, isRegistered }: ReadinessOptions): string[] => [
  ...[disk.shortage() ?? []].flat().map((shortage) => `disk: ${shortage}`),
  ...(selector.reason === null ? [] : [`provider: ${selector.reason}`]),
  ...(selector.reason === null && manager.recovery.isUnderWay ? [`sandboxes: ${recoveringError().message}`] : []),
  ...(isRegistered() ? [] : ['broker: not registered yet']),
]
