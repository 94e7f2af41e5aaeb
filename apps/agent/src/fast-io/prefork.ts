import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { withTimeout } from '@boxoffice/kit/with-timeout'
import { z } from 'zod'

/** Control groups by the name of a sandbox; `directories` are the parents of all of them, and may be missing for one. */
export type Groups = {
  readonly directories: readonly string[]
  group(name: string): { readonly directories: readonly string[]; remove(): Promise<unknown> }
}

/** Both ids as the host has them. `supervisorPid` rejects when the sandbox could not be set up. */
type Started = { pid: number; supervisorPid: Promise<number> }

/** How a preforked process becomes the program, which reads the rest of its arguments later, and as whom it runs. */
export type LaunchOrder = {
  /** Arguments for namespaces and for devices, which the process has already where its agent may make them. */
  namespaces: readonly string[]
  devices: readonly string[]
  arguments: readonly string[]
  uid: number | null
  gid: number | null
  /** What it says of itself goes there. */
  log: string
}

/** A process that waits in the control group of its sandbox to become the first process of it. */
export type PreforkedProcess = {
  /** With the arguments that it still lacks. */
  run(rest: readonly string[]): Started
}

export interface Prefork {
  /** Makes one for the sandbox of this name. Resolves when it is ready, and also when it could not be made. */
  make(name: string, supervisorPath: string, order: LaunchOrder): Promise<void>
  /** The sandbox's, if it is ready. */
  take(name: string): PreforkedProcess | undefined
  /** Ends the sandbox's, if nobody has taken it. */
  drop(name: string): void
  close(): Promise<void>
}

/** How long one may take to be made, and the prefork program to end. Either takes milliseconds, unless the kernel is at a loss. */
const WITHIN_MS = 5000

/** What the prefork program says, a line each. */
const Line = z.union([
  z.object({ ready: z.string(), pid: z.number().int() }),
  z.object({ inner: z.string(), pid: z.number().int().nullable() }),
  z.object({ gone: z.string() }),
])

/**
 * Keeps preforked processes. What they take off the way to a new sandbox: the first move into a control group, for which the kernel waits
 * several milliseconds, the namespaces that are the same for all, and the start of bubblewrap, which is `program`; they see `paths`
 * of the host. The supervisor's program makes and holds them (`--prefork`), because a fork stops an agent for milliseconds, the
 * longer the larger it is.
 */
export const createPrefork = (cgroups: Groups, program: string, paths: readonly string[]): Prefork => {
  const ready = new Map<string, number>()
  const making = new Map<string, () => void>()
  const starting = new Map<string, PromiseWithResolvers<number>>()
  /** What removes the groups of those that ended with it. */
  let cleaned: Promise<unknown> = Promise.resolve()
  let keeper: ChildProcess | undefined
  let closed = false

  const tell = (message: object): void => void keeper?.stdin?.write(`${JSON.stringify(message)}\n`)

  const made = (name: string): void => {
    making.get(name)?.()
    making.delete(name)
  }

  const hear = (text: string): void => {
    const line = Line.parse(JSON.parse(text))
    if ('ready' in line) {
      // Nobody waits for one that took too long.
      if (making.has(line.ready)) ready.set(line.ready, line.pid)
      else tell({ drop: line.ready })
      made(line.ready)
    } else if ('gone' in line) {
      ready.delete(line.gone)
      made(line.gone)
    } else if (line.pid === null) starting.get(line.inner)?.reject(new Error('bubblewrap told no process id'))
    else starting.get(line.inner)?.resolve(line.pid)
  }

  const open = (supervisorPath: string): void => {
    const child = spawn(supervisorPath, ['--prefork', program, ...paths, ...cgroups.directories], {
      cwd: '/',
      env: {},
      detached: true,
      stdio: ['pipe', 'pipe', 'ignore'],
    })
    keeper = child
    const ended = (): void => {
      if (keeper !== child) return
      keeper = undefined
      // Those that waited end with it; it could not remove their groups if it was killed.
      const names = closed ? [] : [...making.keys(), ...ready.keys()]
      cleaned = Promise.allSettled([cleaned, ...names.map((name) => cgroups.group(name).remove())])
      for (const name of [...making.keys()]) made(name)
      ready.clear()
      for (const { reject } of starting.values()) reject(new Error('the process that starts sandboxes has ended'))
    }
    child.on('error', ended)
    // Not at its exit: what it said last comes after that.
    child.on('close', ended)
    child.stdin.on('error', () => {}) // it has ended, which is told above
    createInterface({ input: child.stdout }).on('line', hear)
    for (const handle of [child, child.stdin as Socket, child.stdout as Socket]) handle.unref()
  }

  const run = (name: string, pid: number, rest: readonly string[]): Started => {
    const inner = Promise.withResolvers<number>()
    inner.promise.catch(() => {}).finally(() => starting.delete(name))
    starting.set(name, inner)
    if (keeper === undefined) inner.reject(new Error('the process that starts sandboxes has ended'))
    tell({ run: name, arguments: rest })
    return { pid, supervisorPid: inner.promise }
  }

  return {
    async make(name, supervisorPath, order) {
      await cleaned
      if (closed) return
      if (keeper === undefined) open(supervisorPath)
      const { promise, resolve } = Promise.withResolvers<void>()
      making.set(name, resolve)
      tell({ make: name, order: { groups: cgroups.group(name).directories, file: program, ...order } })
      await withTimeout(promise, WITHIN_MS, () => made(name))
    },
    take(name) {
      const pid = ready.get(name)
      ready.delete(name)
      return pid === undefined ? undefined : { run: (rest) => run(name, pid, rest) }
    },
    drop(name) {
      if (ready.delete(name)) tell({ drop: name })
    },
    async close() {
      closed = true
      if (keeper === undefined) return
      // It ends those that wait, and removes their groups. Sandboxes do not need it.
      const ending = keeper
      const exited = once(ending, 'exit')
      ending.ref()
      ending.stdin?.end()
      await withTimeout(exited, WITHIN_MS, () => {
        ending.kill('SIGKILL')
        return exited
      })
    },
  }
}
