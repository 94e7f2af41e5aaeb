import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { Readable, Writable } from 'node:stream'
import type { CgroupGroup, Cgroups } from './cgroups.ts'
import { innerPid, type Spawned } from './spawn.ts'
import type { LocalState } from './state-file.ts'

/** A process that waits in a control group of its own to become the first process of a sandbox. */
export type Launcher = {
  /** Name of its group. */
  group: string
  run(command: LocalState['command'], log: string): Spawned
}

export interface Launchers {
  /** One that is ready, or undefined: then the sandbox is started the slow way. */
  take(): Launcher | undefined
  /** Makes up the number again, in the background. */
  refill(supervisorPath: string): void
  close(): Promise<void>
}

const READY = 8
const FEW = 3
const QUIET_MS = 50

type Waiting = { launcher: Launcher; child: ChildProcess; group: CgroupGroup }

/**
 * Keeps a few launchers. What they take off the way to a new sandbox: the fork of the agent, which grows with its memory, and the
 * first move into a control group, for which the kernel waits several milliseconds. Nothing of a sandbox is in them.
 */
export const createLaunchers = (cgroups: Cgroups): Launchers => {
  const ready: Waiting[] = []
  const making = new Set<Promise<void>>()
  let closed = false
  let timer: NodeJS.Timeout | undefined

  const make = async (supervisorPath: string): Promise<void> => {
    const name = `next-${randomBytes(6).toString('hex')}`
    const group = cgroups.group(name)
    // A session of its own: it must outlive the agent once it is a sandbox. Before that it ends with its stdin.
    const child = spawn(supervisorPath, ['--launch'], { cwd: '/', env: {}, detached: true, stdio: ['pipe', 'ignore', 'ignore', 'pipe'] })
    child.unref()
    child.on('error', () => {})
    const { pid } = child
    if (pid === undefined) return
    const waiting: Waiting = { launcher: { group: name, run: (command, log) => run(child, pid, command, log) }, child, group }
    child.once('exit', () => forget(waiting))
    try {
      group.makeDirectories()
      await group.attach(pid)
    } catch {
      child.kill('SIGKILL') // it is started the slow way then, which says what is wrong
      return
    }
    if (closed || child.exitCode !== null) return end(waiting)
    ready.push(waiting)
  }

  const forget = (waiting: Waiting): void => {
    const at = ready.indexOf(waiting)
    if (at === -1) return
    ready.splice(at, 1)
    void waiting.group.remove().catch(() => {})
  }

  const end = async ({ child, group }: Waiting): Promise<void> => {
    const exited = child.exitCode === null && child.signalCode === null ? once(child, 'exit') : undefined
    child.stdin?.end()
    await exited
    await group.remove()
  }

  return {
    take() {
      const waiting = ready.shift()
      waiting?.child.removeAllListeners('exit')
      return waiting?.launcher
    },
    refill(supervisorPath) {
      // Forking holds the agent up: in a burst of new sandboxes not before it is over, unless the last ones are being taken.
      if (ready.length >= FEW) clearTimeout(timer)
      else if (timer !== undefined) return
      timer = setTimeout(() => {
        timer = undefined
        for (let missing = READY - ready.length - making.size; missing > 0 && !closed; missing--) {
          const made = make(supervisorPath).catch(() => {})
          making.add(made)
          void made.finally(() => making.delete(made))
        }
      }, QUIET_MS).unref()
    },
    async close() {
      closed = true
      clearTimeout(timer)
      await Promise.all(making)
      await Promise.all(ready.splice(0).map(end))
    },
  }
}

const run = (child: ChildProcess, pid: number, command: LocalState['command'], log: string): Spawned => {
  const supervisorPid = innerPid(child.stdio[3] as Readable)
  supervisorPid.catch(() => {})
  const stdin = child.stdin as Writable
  stdin.on('error', () => {}) // it ended: then it tells no process id either
  stdin.end(`${JSON.stringify({ ...command, environment: {}, log })}\n`)
  return { pid, supervisorPid }
}
