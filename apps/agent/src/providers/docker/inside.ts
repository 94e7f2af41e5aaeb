import type Docker from 'dockerode'
import { read } from '../../host/kernel-file.ts'
import { childrenBelow, nameProcess, type ProcessName, processState } from '../../host/process-table.ts'
import type { Inside, SandboxHandle } from '../../sandbox/provider.ts'

type Known = { init: ProcessName; layer: string | undefined }

/**
 * Finds the processes of containers by the kernel, and asks the engine about each once. Undefined where the engine's process ids are
 * not this machine's, and for runtimes that have processes of their own in the place of the sandbox's.
 */
export const containerProcesses = (docker: Docker) => {
  const known = new Map<string, Known>()

  const find = async ({ engineId }: SandboxHandle): Promise<Known | undefined> => {
    const { State, GraphDriver } = await docker.getContainer(engineId).inspect()
    const init = State.Pid > 0 && isSupervisorOf(State.Pid, engineId) ? await nameProcess(State.Pid) : undefined
    if (init === undefined) return undefined
    // Of overlay drivers; others say other things.
    const { UpperDir: layer } = (GraphDriver?.Data ?? {}) as { UpperDir?: string }
    const found = { init, layer }
    known.set(engineId, found)
    return found
  }

  return {
    async inside(handle: SandboxHandle): Promise<Inside | undefined> {
      const { engineId } = handle
      const before = known.get(engineId)
      const now = before !== undefined && (await processState(before.init)) !== 'gone' ? before : await find(handle)
      if (now === undefined) return undefined
      const { pid } = now.init
      return { supervisor: pid, others: childrenBelow(pid), layer: now.layer }
    },
    forget: ({ engineId }: SandboxHandle): void => void known.delete(engineId),
  }
}

const isSupervisorOf = (pid: number, engineId: string): boolean =>
  read(`/proc/${pid}/cgroup`).includes(engineId) && read(`/proc/${pid}/cmdline`).startsWith('/.boxoffice/supervisor\0')
