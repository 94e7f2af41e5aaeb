import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { createLocalProvider } from '../../../src/providers/local/local.ts'
import type { LiveSandbox } from '../../../src/sandboxes/live/live-sandbox.ts'
import { run } from '../../host/support/exec.ts'
import { Host, silent } from '../../host/support/host.ts'
import { parentOf } from '../../support/processes.ts'
import { providerSuite } from './suite.ts'

/** What is prepared for a sandbox to come is none of one. */
const remains = async ({ installId, dataDirectory }: Host): Promise<string[]> => {
  const prepared = await readdir(join(dataDirectory, 'prepared'))
  return ['memory', 'pids', 'cpu', 'freezer', ''].flatMap((hierarchy) => {
    const group = join('/sys/fs/cgroup', hierarchy, 'boxoffice', installId)
    return existsSync(group)
      ? readdirSync(group, { withFileTypes: true })
          .filter((entry) => entry.isDirectory() && !prepared.includes(entry.name))
          .map(({ name }) => join(group, name))
      : []
  })
}

/** Kills PID 1 of the sandbox from the host. */
const accident = async (host: Host, sandbox: LiveSandbox): Promise<void> => {
  for await (const { id, engineId } of host.provider.sandboxes.list()) {
    if (id !== sandbox.id) continue
    const monitor = Number(engineId)
    const children = readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && parentOf(Number(pid)) === monitor)
    for (const pid of children.length > 0 ? children.map(Number) : [monitor]) process.kill(pid, 'SIGKILL')
  }
}

/** Whether it was started by a preforked process: then bubblewrap read most of its arguments later. */
const wasLaunched = (host: Host, sandbox: LiveSandbox): boolean =>
  commandOf(String(stateOf(sandbox, host).monitor.pid))
    .split('\0')
    .includes('--args')

const stateOf = ({ id }: LiveSandbox, host: Host) => JSON.parse(readFileSync(join(host.dataDirectory, 'local', `${id}.json`), 'utf8'))

const NAMESPACES = ['net', 'ipc', 'uts', 'user', 'pid', 'mnt', 'cgroup']

const outside = (sandbox: LiveSandbox, host: Host): string[] => {
  const { supervisor } = stateOf(sandbox, host)
  return NAMESPACES.map((name) => readlinkSync(`/proc/${supervisor.pid}/ns/${name}`))
}

describe.runIf(process.getuid?.() === 0)('prefork of the local provider', () => {
  const begin = () =>
    Host.start(({ path, installId }) => createLocalProvider({ dataDirectory: path, installId, isolation: 'bubblewrap', log: silent }))

  test('a sandbox from a preforked process is as closed as one without, and like it in all that programs see', async () => {
    await using host = await begin()
    const [slow, ...fast] = [await host.ensure('slow'), await host.ensure('fast'), await host.ensure('faster')]
    // A stopped one comes back without.
    await host.manager.suspend(slow.id, 'stop')
    await host.manager.resume(slow.id)
    expect([slow, ...fast].map((sandbox) => wasLaunched(host, sandbox))).toEqual([false, true, true])
    const look =
      'hostname; cut -d: -f1 /proc/net/dev; cat /proc/net/fib_trie; ipcs 2>&1; grep -i -e cap -e nonewprivs -e seccomp /proc/self/status; (exec 3<>/dev/tcp/127.0.0.1/9) 2>&1 | tail -1; hostname other; ip link set lo down; unshare -n true; stat -c "%A %N" /dev/* /dev/pts/*; touch /dev/x 2>&1; df --output=size /dev/shm; script -qc tty /dev/null; dd if=/dev/zero bs=9 count=1 2>&1 >/dev/full | head -1'
    const seen = await Promise.all([slow, ...fast].map(async (sandbox) => (await run(sandbox, look)).stdout))
    expect(seen[0]).toContain('sandbox')
    expect(seen[0]).toContain('Connection refused') // a loopback device that is up
    expect(seen[1]).toBe(seen[0])
    expect(seen[2]).toBe(seen[0])
    const spaces = [slow, ...fast].map((sandbox) => outside(sandbox, host))
    const here = NAMESPACES.map((name) => readlinkSync(`/proc/self/ns/${name}`))
    expect(new Set([...spaces.flat(), ...here]).size).toBe(4 * NAMESPACES.length)
  })

  test('the process that holds the preforked ones and is killed takes no sandbox with it, and is replaced', async () => {
    await using host = await begin()
    const sandbox = await host.ensure('before')
    const prefork = readdirSync('/proc').find((pid) => parentOf(Number(pid)) === process.pid && commandOf(pid).includes('--prefork'))
    process.kill(Number(prefork), 'SIGKILL')
    await expect.poll(() => existsSync(`/proc/${prefork}`)).toBe(false)
    expect(await run(sandbox, 'echo still')).toMatchObject({ stdout: 'still\n' })
    const next = await host.ensure('after')
    expect(await run(next, 'echo again')).toMatchObject({ stdout: 'again\n' })
    expect([sandbox, next].map((one) => wasLaunched(host, one))).toEqual([true, true])
    for (const { id } of [sandbox, next]) await host.manager.destroy(id, 'released')
    await expect.poll(async () => await remains(host), { timeout: 60_000 }).toEqual([])
  })
})

const commandOf = (pid: string): string => readFileSync(`/proc/${pid}/cmdline`, 'utf8')

describe.each(['bubblewrap', 'none'] as const)('local provider, isolation %s', (kind) => {
  providerSuite({
    kind,
    open: ({ path, installId }) => createLocalProvider({ dataDirectory: path, installId, isolation: kind, log: silent }),
    cycles: 40,
    accident,
    remains,
  })
})
