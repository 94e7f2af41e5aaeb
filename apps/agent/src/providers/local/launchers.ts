import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { z } from 'zod'
import { MADE_AHEAD } from './bubblewrap.ts'
import type { Cgroups } from './cgroups.ts'
import type { Spawned } from './spawn.ts'
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

/** What the nursery says, a line each. */
const Line = z.union([
  z.object({ ready: z.string(), pid: z.number().int() }),
  z.object({ inner: z.string(), pid: z.number().int().nullable() }),
  z.object({ gone: z.string() }),
])

/**
 * Keeps a few launchers. What they take off the way to a new sandbox: the first move into a control group, for which the kernel
 * waits several milliseconds, and the namespaces that are the same for all. Nothing of a sandbox is in them. The supervisor's
 * program makes and holds them (`--nursery`), because a fork stops an agent for milliseconds, the longer the larger it is.
 */
export const createLaunchers = (cgroups: Cgroups): Launchers => {
  const ready = new Map<string, number>()
  const making = new Set<string>()
  const starting = new Map<string, PromiseWithResolvers<number>>()
  let nursery: ChildProcess | undefined
  let closed = false
  let timer: NodeJS.Timeout | undefined

  const tell = (message: object): void => void nursery?.stdin?.write(`${JSON.stringify(message)}\n`)

  const hear = (text: string): void => {
    const line = Line.parse(JSON.parse(text))
    if ('ready' in line) {
      making.delete(line.ready)
      ready.set(line.ready, line.pid)
    } else if ('gone' in line) {
      making.delete(line.gone)
      ready.delete(line.gone)
    } else if (line.pid === null) starting.get(line.inner)?.reject(new Error('bubblewrap told no process id'))
    else starting.get(line.inner)?.resolve(line.pid)
  }

  const open = (supervisorPath: string): void => {
    const child = spawn(supervisorPath, ['--nursery'], { cwd: '/', env: {}, detached: true, stdio: ['pipe', 'pipe', 'ignore'] })
    nursery = child
    const ended = (): void => {
      if (nursery !== child) return
      nursery = undefined
      // Those that waited end with it; it could not remove their groups if it was killed.
      if (!closed)
        for (const name of [...making, ...ready.keys()])
          void cgroups
            .group(name)
            .remove()
            .catch(() => {})
      making.clear()
      ready.clear()
      for (const { reject } of starting.values()) reject(new Error('the process that starts sandboxes has ended'))
    }
    child.on('error', ended)
    child.on('exit', ended)
    child.stdin.on('error', () => {}) // it has ended, which is told above
    createInterface({ input: child.stdout }).on('line', hear)
    for (const handle of [child, child.stdin as Socket, child.stdout as Socket]) handle.unref()
  }

  const run = (group: string, pid: number, command: LocalState['command'], log: string): Spawned => {
    const inner = Promise.withResolvers<number>()
    inner.promise.catch(() => {}).finally(() => starting.delete(group))
    starting.set(group, inner)
    if (nursery === undefined) inner.reject(new Error('the process that starts sandboxes has ended'))
    tell({ run: group, ...command, ahead: MADE_AHEAD, log })
    return { pid, supervisorPid: inner.promise }
  }

  return {
    take() {
      for (const [group, pid] of ready) {
        ready.delete(group)
        return { group, run: (command, log) => run(group, pid, command, log) }
      }
      return undefined
    },
    refill(supervisorPath) {
      // Making them takes the processor from the sandboxes of a burst: not before it is over, unless the last ones are being taken.
      if (ready.size >= FEW) clearTimeout(timer)
      else if (timer !== undefined) return
      timer = setTimeout(() => {
        timer = undefined
        if (closed) return
        if (nursery === undefined) open(supervisorPath)
        for (let missing = READY - ready.size - making.size; missing > 0; missing--) {
          const name = `next-${randomBytes(6).toString('hex')}`
          making.add(name)
          tell({ make: name, groups: cgroups.group(name).directories })
        }
      }, QUIET_MS).unref()
    },
    async close() {
      closed = true
      clearTimeout(timer)
      if (nursery === undefined) return
      // It ends those that wait, and removes their groups. Sandboxes do not need it.
      const exited = once(nursery, 'exit')
      nursery.ref()
      nursery.stdin?.end()
      await exited
    },
  }
}
