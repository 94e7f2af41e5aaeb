import { once } from 'node:events'
import { WebSocket } from 'ws'
import type { Program } from '../e2e/support/program.ts'
import { pssKiB, residentKiB } from './process-memory.ts'
import { median } from './statistics.ts'

/** What a Node program is started with whose inspector is to be opened later, at a port that is free. */
export const INSPECTABLE = { NODE_OPTIONS: '--inspect-port=127.0.0.1:0' }

/** Of one script, functions by their ranges; the first range is the whole function. */
type Coverage = { url: string; functions: { ranges: { count: number }[] }[] }[]

const SOURCE_FILE = /\/((?:apps|packages)\/[^/]+\/src\/.*)$/

export type Memory = { pssKiB: number; residentKiB: number; heapKiB: number }

/** To be disposed of before the program is stopped: one that is looked into waits at its end until nobody looks. */
export interface Inspector extends Disposable {
  /** The files of the project in which a function runs while `work` does, as V8's precise coverage counts it; sorted. */
  filesEnteredBy(work: () => Promise<unknown>): Promise<string[]>
  /** What the process holds once all garbage has been collected. */
  memory(): Promise<Memory>
}

/** Opens the inspector of a running program (SIGUSR1), for what no look from outside can tell: what is held, and what is garbage. */
export const openInspector = async (program: Program): Promise<Inspector> => {
  process.kill(program.ready.pid, 'SIGUSR1')
  const url = await listening(program)
  const socket = new WebSocket(url, { perMessageDeflate: false })
  await once(socket, 'open')
  const waiting = new Map<number, (result: Record<string, unknown>) => void>()
  socket.on('message', (text) => {
    const { id, result } = JSON.parse(String(text)) as { id?: number; result?: Record<string, unknown> }
    if (id !== undefined) waiting.get(id)?.(result ?? {})
  })
  let calls = 0
  const call = (method: string, params: object = {}): Promise<Record<string, unknown>> =>
    new Promise((resolve) => {
      waiting.set(++calls, resolve)
      socket.send(JSON.stringify({ id: calls, method, params }))
    })
  const covered = async (): Promise<string[]> => {
    const { result } = (await call('Profiler.takePreciseCoverage')) as { result: Coverage }
    const entered = result.filter(({ functions }) => functions.some(({ ranges }) => (ranges[0]?.count ?? 0) > 0))
    return entered.flatMap(({ url }) => SOURCE_FILE.exec(url)?.[1] ?? []).toSorted()
  }
  return {
    async filesEnteredBy(work) {
      await call('Profiler.enable')
      await call('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
      await covered()
      await work()
      const files = await covered()
      await call('Profiler.stopPreciseCoverage')
      return files
    },
    async memory() {
      // Twice, because what the first one finalizes the second one frees; then the allocator's own threads take a moment.
      for (let i = 0; i < 2; i++) await call('HeapProfiler.collectGarbage')
      const samples: Memory[] = []
      for (let i = 0; i < 10; i++) {
        await new Promise((resolve) => setTimeout(resolve, 100))
        const { usedSize } = (await call('Runtime.getHeapUsage')) as { usedSize: number }
        const { pid } = program.ready
        samples.push({ pssKiB: pssKiB(pid), residentKiB: residentKiB(pid), heapKiB: usedSize / 1024 })
      }
      const middle = (field: keyof Memory): number => median(samples.map((sample) => sample[field]))
      return { pssKiB: middle('pssKiB'), residentKiB: middle('residentKiB'), heapKiB: middle('heapKiB') }
    },
    [Symbol.dispose]: () => socket.terminate(),
  }
}

const listening = async (program: Program): Promise<string> => {
  for (let i = 0; i < 100; i++) {
    const url = /Debugger listening on (ws:\/\/\S+)/.exec(program.stderr())?.[1]
    if (url !== undefined) return url
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  throw new Error('the inspector did not open')
}
