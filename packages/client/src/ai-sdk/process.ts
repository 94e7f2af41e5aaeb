import type { Exec } from '../sandbox/exec.ts'
import type { Output, Run, Stdin } from '../sandbox/run.ts'
import { drain } from '../stream/drain.ts'

export type AiSandboxProcessOptions = {
  /** For the shell of the sandbox. */
  command: string
  /** Relative to `/workspace` (the default), or absolute in the sandbox. */
  workingDirectory?: string | undefined
  env?: Record<string, string> | undefined
  /** Ends the process; `wait()` rejects with its reason. */
  abortSignal?: AbortSignal | undefined
}

/** A running process. At most 768 KiB of a stream wait unread, then the process waits: read both streams. */
export type AiSandboxProcess = {
  readonly pid?: number
  readonly stdout: ReadableStream<Uint8Array>
  readonly stderr: ReadableStream<Uint8Array>
  wait(): Promise<{ exitCode: number }>
  /** Ends the process and what it started; resolves when it has ended. A second time is fine. */
  kill(): Promise<void>
}

export type AiWritableSandboxProcess = AiSandboxProcess & { readonly stdin: WritableStream<Uint8Array> }

export const aiProcess = (run: Run, exec: Pick<Exec, 'signal'>): AiSandboxProcess => {
  let hasEnded = false
  const ended = run.exit
    .then(({ exitCode }) => ({ exitCode }))
    .finally(() => {
      hasEnded = true
    })
  ended.catch(() => {}) // Whoever waits hears of it.
  return {
    pid: run.pid,
    stdout: readable(run.stdout),
    stderr: readable(run.stderr),
    wait: () => ended,
    async kill() {
      if (hasEnded) return
      // A request, since a frame is lost with a connection that drops now.
      await exec.signal(run.execId, 'KILL')
      await ended.catch(() => {})
    },
  }
}

export const aiWritableProcess = (run: Run, exec: Pick<Exec, 'signal'>): AiWritableSandboxProcess =>
  Object.assign(aiProcess(run, exec), { stdin: writable(run.stdin) })

/** Reads no further than its own reader, so that a slow reader slows the process. */
const readable = (output: Output): ReadableStream<Uint8Array> => {
  let pieces: AsyncIterator<Uint8Array> | undefined
  return new ReadableStream(
    {
      async pull(controller) {
        pieces ??= output[Symbol.asyncIterator]()
        const { done, value } = await pieces.next()
        if (done === true) controller.close()
        else controller.enqueue(value)
      },
      cancel() {
        // The process must not wait for a reader who has left, nor that one for the process.
        drain(output, pieces).catch(() => {})
      },
    },
    { highWaterMark: 0 },
  )
}

const writable = (stdin: Stdin): WritableStream<Uint8Array> =>
  new WritableStream({
    write: (bytes) => stdin.write(bytes),
    close: () => stdin.end(),
    abort: () => stdin.end(),
  })
