import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import Docker from 'dockerode'

const HIERARCHIES = '/sys/fs/cgroup'

const commandLine = (pid: string): string => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')
  } catch {
    return '' // it ended between the two looks
  }
}

/** What a stopped agent that ends its sandboxes has left on this machine: nothing, or the row is worth nothing. */
export const leftBy = async (dataDir: string, provider: 'docker' | 'local'): Promise<string[]> => {
  const install = readFileSync(join(dataDir, 'install-id'), 'utf8').trim()
  const names = [dataDir, install]
  const named = (text: string): boolean => names.some((name) => text.includes(name))
  const directories = ['sandboxes', 'workspaces', 'local']
    .map((name) => join(dataDir, name))
    .flatMap((directory) => (existsSync(directory) ? readdirSync(directory).map((name) => join(directory, name)) : []))
  const processes = readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && pid !== String(process.pid) && named(commandLine(pid)))
  const mounts = readFileSync('/proc/mounts', 'utf8').split('\n').filter(named)
  const groups = [HIERARCHIES, ...readdirSync(HIERARCHIES).map((name) => join(HIERARCHIES, name))]
    .map((root) => join(root, 'boxoffice', install))
    .filter(existsSync)
  const filters = { label: [`boxoffice.install_id=${install}`] }
  const containers = provider === 'docker' ? (await new Docker().listContainers({ all: true, filters })).map(({ Id }) => Id) : []
  return [...directories, ...processes.map((pid) => `process ${pid}: ${commandLine(pid)}`), ...mounts, ...groups, ...containers]
}
