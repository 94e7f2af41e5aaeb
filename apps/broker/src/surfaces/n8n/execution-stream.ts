import { addAbortSignal, Readable } from 'node:stream'
import { BoxofficeError, type ExitFrame, type ExitReason, type ReadyFrame } from '@boxoffice/protocol'
import type { SessionDataplane } from '../../dataplane/client.ts'
import type { ProcessSocket, ProcessSocketHandlers, ProcessStart } from '../../dataplane/process-socket.ts'
import { Utf8Chunks } from '../facade/utf8-chunks.ts'
import { type Offsets, resumeAt, sequenceOf } from './sequence.ts'

const STREAMS = ['stdout', 'stderr'] as const
const KILLED: ReadonlySet<ExitReason> = new Set(['signaled', 'killed', 'oom_killed'])

/** An event of an execution, which gets its `seq` when it is sent (contract 7.5). */
type Event =
  | { type: 'started'; exec_id: string }
  | { type: 'stdout' | 'stderr'; data: string }
  | { type: 'exit'; exit_code: number; success: boolean; execution_time_ms: number; timed_out: boolean; killed: boolean }
  | { type: 'error'; error: string }

/** `signal`: the client has gone. */
export type ExecutionOptions = { after?: Offsets | undefined; signal: AbortSignal }

/** Opens the events of a command from its beginning, or from `after` on. RANGE_NOT_SATISFIABLE: what is wanted is kept no more. */
export async function openExecution(
  dataplane: SessionDataplane,
  start: ProcessStart,
  { after, signal }: ExecutionOptions,
): Promise<Readable> {
  const stream = new ExecutionStream(after ?? { stdout: 0, stderr: 0 }, after !== undefined)
  addAbortSignal(signal, stream)
  try {
    await stream.open(dataplane, start)
    return stream
  } catch (thrown) {
    stream.destroy()
    throw thrown
  }
}

/** Lines of JSON, as fast as the client takes them. A client that goes leaves its command, which ends by its own time limit. */
class ExecutionStream extends Readable {
  /** What the client has, in bytes. */
  readonly #sent: Offsets
  readonly #texts = { stdout: new Utf8Chunks(), stderr: new Utf8Chunks() }
  readonly #isResumed: boolean
  #process: ProcessSocket | undefined
  #isStarted = false
  #isOver = false
  #refusal: BoxofficeError | undefined

  constructor(given: Offsets, isResumed: boolean) {
    super()
    this.#sent = { ...given }
    this.#isResumed = isResumed
  }

  /** Resolves when the command is there, or has ended. */
  async open(dataplane: SessionDataplane, start: ProcessStart): Promise<void> {
    const process = await dataplane.openProcess(start, this.#handlers())
    this.#process = process
    if (this.#refusal !== undefined) throw this.#refusal
    if (this.destroyed) process.leave()
    else if (this.readableLength >= this.readableHighWaterMark) process.pause()
  }

  override _read(): void {
    this.#process?.resume()
  }

  override _destroy(_error: Error | null, callback: (error?: Error | null) => void): void {
    this.#process?.leave()
    callback()
  }

  #handlers(): ProcessSocketHandlers {
    return {
      ready: (frame) => this.#onReady(frame),
      output: (name, bytes, offset) => this.#onOutput(name, bytes, offset),
      exit: (frame) => this.#onExit(frame),
      closed: (error) => this.#end({ type: 'error', error: error?.message ?? 'the command has been left' }),
    }
  }

  #onReady({ exec_id: id = '', ...frame }: ReadyFrame): void {
    if (this.#isStarted) return
    this.#isStarted = true
    for (const name of STREAMS) {
      const { offset } = frame[name]
      const at = this.#isResumed ? resumeAt(offset, this.#sent[name]) : offset === 0 ? 0 : undefined
      if (at === undefined) this.#refusal = new BoxofficeError('RANGE_NOT_SATISFIABLE', `after: this part of ${name} is kept no more`)
      else this.#sent[name] = at
    }
    this.#send({ type: 'started', exec_id: id })
  }

  #onOutput(name: 'stdout' | 'stderr', bytes: Buffer, offset: number): void {
    const pending = this.#texts[name].pendingBytes
    const skipped = Math.max(0, this.#sent[name] + pending - offset)
    if (skipped >= bytes.length) return
    const chunk = this.#texts[name].push(bytes.subarray(skipped), offset + skipped)
    if (chunk === undefined) return
    this.#sent[name] = offset + bytes.length - this.#texts[name].pendingBytes
    this.#send({ type: name, data: chunk.data })
  }

  #onExit({ exit_code, reason, timed_out, duration_ms, spawn_error }: ExitFrame): void {
    for (const name of STREAMS) {
      const text = this.#texts[name]
      this.#sent[name] += text.pendingBytes
      const rest = text.end(this.#sent[name])
      if (rest !== undefined) this.#send({ type: name, data: rest.data })
    }
    if (spawn_error !== null) {
      this.#refusal ??= new BoxofficeError('INVALID_REQUEST', spawn_error.message)
      this.#end({ type: 'error', error: spawn_error.message })
    } else if (reason === 'sandbox_lost')
      this.#end({ type: 'error', error: 'the sandbox was lost, and how the command ended is not known' })
    else
      this.#end({
        type: 'exit',
        exit_code: exit_code ?? -1,
        success: exit_code === 0,
        execution_time_ms: Math.round(duration_ms),
        timed_out,
        killed: KILLED.has(reason),
      })
  }

  #send(event: Event): void {
    if (this.destroyed || this.#isOver) return
    if (!this.push(`${JSON.stringify({ seq: sequenceOf(this.#sent), ...event })}\n`)) this.#process?.pause()
  }

  #end(event: Event): void {
    if (this.destroyed || this.#isOver) return
    this.#send(event)
    this.#isOver = true
    this.push(null)
  }
}
