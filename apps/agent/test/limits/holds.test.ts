import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { afterEach, expect, test } from 'vitest'
import { stateOfPid } from '../../src/host/process-table.ts'
import { Holds, type Stoppable } from '../../src/limits/holds.ts'
import type { HoldReason } from '../../src/sandbox/held.ts'
import { until } from '../support/processes.ts'
import { quiet } from '../support/sandbox.ts'

const children: ChildProcess[] = []
afterEach(async () => {
  for (const child of children.splice(0)) {
    const ended = child.exitCode === null && child.signalCode === null ? once(child, 'exit') : undefined
    child.kill('SIGKILL')
    await ended
  }
})

const start = async (): Promise<number> => {
  const child = spawn('sleep', ['600'])
  children.push(child)
  await once(child, 'spawn')
  return child.pid as number
}

/** A sandbox of processes of this test. */
class Sandbox implements Stoppable {
  readonly id: string
  readonly pids: number[] = []
  held: HoldReason | undefined
  end = (): void => {}

  constructor(id: string) {
    this.id = id
  }

  async start(): Promise<number> {
    const pid = await start()
    this.pids.push(pid)
    return pid
  }

  asleep = false

  inside() {
    return Promise.resolve(this.asleep ? undefined : { supervisor: process.pid, others: [...this.pids] })
  }

  onEnd(listener: () => void): () => void {
    this.end = listener
    return () => {}
  }
}

const holdsOf = () => {
  const saved: string[][] = []
  const file = { save: (ids: readonly string[]) => void saved.push([...ids]) }
  return { saved, holds: new Holds<Sandbox>({ file, isThere: () => true, log: quiet }) }
}

const becomes = (pid: number, state: 'running' | 'stopped' | 'gone') => until(`process ${pid} is ${state}`, () => stateOfPid(pid) === state)

test('a hold stops what runs, and what begins to; its end lets go of what it stopped, and of nothing else', async () => {
  const { holds, saved } = holdsOf()
  const sandbox = new Sandbox('one')
  const [first, stopped] = [await sandbox.start(), await sandbox.start()]
  process.kill(stopped, 'SIGSTOP')
  await becomes(stopped, 'stopped')
  await holds.hold(sandbox, 'disk_low')
  await becomes(first, 'stopped')
  expect([sandbox.held, saved]).toEqual(['disk_low', [['one']]])

  const second = await sandbox.start()
  process.kill(first, 'SIGCONT')
  await holds.keep()
  await becomes(first, 'stopped')
  await becomes(second, 'stopped')

  await holds.hold(sandbox, 'workspace_quota')
  await holds.releaseAll('disk_low')
  expect([sandbox.held, stateOfPid(first)]).toEqual(['workspace_quota', 'stopped'])
  await holds.release(sandbox, 'workspace_quota')
  await becomes(first, 'running')
  await becomes(second, 'running')
  expect([sandbox.held, stateOfPid(stopped), holds.size, saved.at(-1)]).toEqual([undefined, 'stopped', 0, []])
})

test('what an earlier run of the agent stopped goes on, whether it is held again or not', async () => {
  const { holds } = holdsOf()
  const [one, two] = [new Sandbox('one'), new Sandbox('two')]
  const pids = [await one.start(), await two.start()] as const
  for (const pid of pids) process.kill(pid, 'SIGSTOP')
  for (const pid of pids) await becomes(pid, 'stopped')
  await holds.hold(one, 'disk_low', { adopted: true })
  await holds.continue(two)
  await becomes(pids[1], 'running')
  expect(stateOfPid(pids[0])).toBe('stopped')
  await holds.releaseAll('disk_low')
  await becomes(pids[0], 'running')
})

test('the one that took most is killed', async () => {
  const { holds } = holdsOf()
  const [less, more] = [new Sandbox('less'), new Sandbox('more')]
  const pids = [await less.start(), await more.start()] as const
  await holds.hold(less, 'disk_low', { taken: 1 })
  await holds.hold(more, 'disk_low', { taken: 2 })
  await holds.killGreatest()
  await becomes(pids[1], 'gone')
  await becomes(pids[0], 'stopped')
})

test('a process that had no processor between its hold and the end of it goes on', async () => {
  const { holds } = holdsOf()
  const sandbox = new Sandbox('one')
  // Both on one processor, and the first has it only when the second leaves it.
  const cpu = /^Cpus_allowed_list:\s*(\d+)/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] as string
  const starved = spawn('chrt', ['--idle', '0', 'taskset', '-c', cpu, 'cat'])
  children.push(starved)
  starved.stdin.write('before')
  await once(starved.stdout, 'data')
  const busy = spawn('taskset', ['-c', cpu, 'sh', '-c', 'echo; while :; do :; done'])
  children.push(busy)
  await once(busy.stdout, 'data')
  sandbox.pids.push(starved.pid as number)
  await holds.hold(sandbox, 'disk_low')
  await holds.release(sandbox, 'disk_low')
  starved.stdin.write('after')
  expect(String((await once(starved.stdout, 'data'))[0])).toBe('after')
})

test('one that sleeps is let go when it is awake', async () => {
  const { holds } = holdsOf()
  const sandbox = new Sandbox('one')
  const pid = await sandbox.start()
  await holds.hold(sandbox, 'disk_low')
  await becomes(pid, 'stopped')
  sandbox.asleep = true
  await holds.releaseAll('disk_low')
  await holds.keep()
  expect([stateOfPid(pid), holds.size]).toEqual(['stopped', 1])
  sandbox.asleep = false
  await holds.releaseAll('disk_low')
  await becomes(pid, 'running')
  expect(sandbox.held).toBeUndefined()
})

test('a sandbox that ends is held no more', async () => {
  const { holds } = holdsOf()
  const sandbox = new Sandbox('one')
  await sandbox.start()
  await holds.hold(sandbox, 'disk_low')
  sandbox.end()
  expect([sandbox.held, holds.size]).toEqual([undefined, 0])
})
