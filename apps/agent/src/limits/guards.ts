import type { Logger } from 'pino'
import type { UploadQuotas } from '../http/upload-limit.ts'
import type { LiveSandbox } from '../sandboxes/live/live-sandbox.ts'
import type { SandboxManager } from '../sandboxes/manager.ts'
import { createDiskGuard } from './disk-guard.ts'
import { openHeldFile } from './held-file.ts'
import { Holds } from './holds.ts'
import { WorkspaceQuotas } from './workspace-quotas.ts'

export type DiskGuardsOptions = {
  manager: SandboxManager
  dataDirectory: string
  /** Of the engine, if it is on this machine. */
  engineDirectory: () => string | undefined
  log: Logger
}

/** What stops those who fill the disk or their quota. */
export interface DiskGuards {
  readonly quotas: UploadQuotas
  close(): Promise<void>
}

/** What an earlier run of the agent held goes on or stays held as soon as its sandbox has been adopted. */
export const startDiskGuards = ({ manager, dataDirectory, engineDirectory, log }: DiskGuardsOptions): DiskGuards => {
  const file = openHeldFile(dataDirectory, (err) => log.warn({ err }, 'which sandboxes are on hold could not be kept'))
  const holds = new Holds<LiveSandbox>({ file, isThere: (sandbox) => manager.get(sandbox.id) === sandbox, log })
  const sandboxes = () => manager.inventory.running()
  const quotas = new WorkspaceQuotas({ sandboxes, holds, log })
  const directories = () => [dataDirectory, engineDirectory() ?? []].flat()
  const guard = createDiskGuard({ directories, sandboxes, holds, left: file.left, log })
  quotas.start()
  guard.start()
  return {
    quotas: {
      async roomIn({ id }, wanted) {
        const sandbox = manager.get(id)
        return sandbox && quotas.roomIn(sandbox, wanted)
      },
      begin({ id }, bytes) {
        const sandbox = manager.get(id)
        return sandbox && quotas.begin(sandbox, bytes)
      },
    },
    async close() {
      await quotas.close()
      await guard.close()
    },
  }
}
