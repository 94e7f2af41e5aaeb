import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { read } from './kernel-file.ts'

const CONTROLLERS = ['memory', 'pids', 'cpu', 'freezer'] as const
export type Controller = (typeof CONTROLLERS)[number]
export type CgroupVersion = 1 | 2

/** Where the kernel has the hierarchy of each controller; one that the host lacks is absent. */
export const mountedControllers = (): Map<Controller, { version: CgroupVersion; mount: string }> => {
  const found = new Map<Controller, { version: CgroupVersion; mount: string }>()
  for (const line of readFileSync('/proc/mounts', 'utf8').split('\n')) {
    const [, mount, type, options = ''] = line.split(' ')
    if (mount === undefined) continue
    if (type === 'cgroup') {
      for (const controller of CONTROLLERS) if (options.split(',').includes(controller)) found.set(controller, { version: 1, mount })
    } else if (type === 'cgroup2') {
      // Something may be mounted over it, as where a container hides the host's groups.
      const available = read(join(mount, 'cgroup.controllers')).trim().split(' ')
      for (const controller of CONTROLLERS) {
        // Every group of version 2 can be frozen; there is no controller to enable.
        if (!found.has(controller) && (controller === 'freezer' ? available.includes('memory') : available.includes(controller))) {
          found.set(controller, { version: 2, mount })
        }
      }
    }
  }
  return found
}
