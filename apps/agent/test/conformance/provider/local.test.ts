import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe } from 'vitest'
import { createLocalProvider } from '../../../src/providers/local/local.ts'
import type { LiveSandbox } from '../../../src/sandbox/live-sandbox.ts'
import type { Host } from '../../host/support/host.ts'
import { silent } from '../../host/support/host.ts'
import { providerSuite } from './suite.ts'

const remains = async ({ installId }: Host): Promise<string[]> =>
  ['memory', 'pids', 'cpu', 'freezer', ''].flatMap((hierarchy) => {
    const group = join('/sys/fs/cgroup', hierarchy, 'boxoffice', installId)
    return existsSync(group)
      ? readdirSync(group, { withFileTypes: true })
          .filter((entry) => entry.isDirectory())
          .map(({ name }) => join(group, name))
          .filter((path) => !holdsLauncher(path))
      : []
  })

/** A process that waits to become a sandbox is none of one; the group is in use as long as it waits. */
const holdsLauncher = (group: string): boolean => {
  const [pid] = readFileSync(join(group, 'cgroup.procs'), 'utf8').split('\n')
  return pid !== undefined && pid !== '' && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('--launch')
}

/** Kills PID 1 of the sandbox from the host. */
const accident = async (host: Host, sandbox: LiveSandbox): Promise<void> => {
  for await (const { id, engineId } of host.provider.list()) {
    if (id !== sandbox.id) continue
    const monitor = Number(engineId)
    const children = readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && parentOf(pid) === monitor)
    for (const pid of children.length > 0 ? children.map(Number) : [monitor]) process.kill(pid, 'SIGKILL')
  }
}

const parentOf = (pid: string): number | undefined => {
  try {
    return Number(/^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
  } catch {
    return undefined
  }
}

describe.each(['bubblewrap', 'none'] as const)('local provider, isolation %s', (kind) => {
  providerSuite({
    kind,
    open: ({ path, installId }) => createLocalProvider({ dataDirectory: path, installId, isolation: kind, log: silent }),
    cycles: 40,
    accident,
    remains,
  })
})
