import { ProcessStream } from '../exec/process-stream.ts'
import { managedStart } from '../exec/start.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { ManagedEntry } from './managed-entry.ts'

/** Starts the run that the entry's record names, and leaves it to itself. Rejects when the sandbox does not start it. */
export const spawnRun = async (sandbox: Sandbox, entry: ManagedEntry, signal: AbortSignal): Promise<void> => {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const stream = new ProcessStream(
    sandbox,
    { type: 'start', payload: managedStart(sandbox, entry.record) },
    {
      ready: () => {
        // Its end may have been told before.
        if (entry.state.name === 'starting') entry.apply({ type: 'started' })
        stream.leave()
        resolve()
      },
      output: () => {},
      // The tracker has told of it already.
      exit: () => resolve(),
      failed: reject,
    },
  )
  await stream.open('process', signal)
  await promise
}

/** Ends the stdin of a run that is about to be killed, by a reader of its own, because only readers can. */
export const closeStdin = async (sandbox: Sandbox, { record: { run }, ended }: ManagedEntry): Promise<void> => {
  const { promise, resolve } = Promise.withResolvers<void>()
  const read = [0, 0, 0]
  const stream = new ProcessStream(
    sandbox,
    { type: 'attach', payload: { id: run, stdout: 'end', stderr: 'end' } },
    {
      ready({ stdout, stderr }) {
        read[1] = stdout.offset
        read[2] = stderr.offset
        resolve()
      },
      output(of, piece) {
        read[of] = (read[of] as number) + piece.length
        stream.acknowledge(of, read[of])
      },
      exit: () => resolve(),
      failed: () => resolve(),
    },
  )
  await stream.open('process').catch(resolve)
  await promise
  stream.writeEnd()
  await stream.drained()
  // The kill comes on another connection, and may come first: the process ends either way.
  void ended.promise.then(() => stream.leave())
}
