import { expect, test } from 'vitest'
import type { ToolCall } from '../src/base/tool.ts'
import { processStart, processWrite } from '../src/tools/processes.ts'

/** A call that is cancelled as soon as `exec` is asked for something. */
const cancelled = (exec: (cancel: () => void) => object) => {
  const controller = new AbortController()
  const session = async () => ({ exec: exec(() => controller.abort(new Error('cancelled'))) })
  return { signal: controller.signal, session } as unknown as ToolCall
}

test('a process_start that is cancelled ends what it has started', async () => {
  const call = cancelled((cancel) => ({
    async start(_command: string, { signal }: { signal?: AbortSignal }) {
      cancel()
      signal?.throwIfAborted()
      expect.fail('the process runs on')
    },
  }))
  await expect(processStart.call({ command: 'sleep 1000' }, call)).rejects.toThrow('cancelled')
})

test('a process_write that is cancelled writes nothing, and leaves the process running', async () => {
  const done: string[] = []
  const call = cancelled((cancel) => ({
    async attach(_id: string, { signal }: { signal?: AbortSignal }) {
      cancel()
      expect(signal, 'would end the process').toBeUndefined()
      const stdin = {
        write: async () => void done.push('write'),
        flush: async () => void done.push('flush'),
        end: async () => void done.push('end'),
      }
      return { stdin, exit: Promise.reject(new Error('left')), detach: () => done.push('left') }
    },
  }))
  await expect(processWrite.call({ process_id: 'p1', input: 'x', end: true }, call)).rejects.toThrow('cancelled')
  expect(done).toEqual(['left'])
})
