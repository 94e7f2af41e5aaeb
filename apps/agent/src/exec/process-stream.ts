import { retry } from '@boxoffice/kit/retry'
import { BoxofficeError, type KillCause } from '@boxoffice/protocol'
import { requireNotHeld } from '../sandbox/held.ts'
import { whyBroken } from '../sandbox/loss.ts'
import type { ProcessKind, ProcessTracker } from '../sandbox/process-tracker.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import { parseFault, processError } from '../supervisor/faults.ts'
import type { Channel, ChannelHandler, SupervisorExit, SupervisorLink } from '../supervisor/link.ts'
import { Exit, Ready } from '../supervisor/payloads.ts'
import { FRAME } from '../supervisor/wire.ts'
import type { StartPayload } from './start.ts'

/** Who reads one process: an HTTP request or a socket. After `exit` or `failed` it hears nothing more. */
export interface ProcessReader {
  /** Comes first; not at all with `quiet` for a new process, or when the spawn failed. */
  ready(ready: Ready): void
  output(stream: 1 | 2, piece: Buffer): void
  /** What the supervisor saw; the only source of an exit. */
  exit(exit: SupervisorExit): void
  failed(error: BoxofficeError): void
}

export type AttachPayload = { id: string; stdout: number | 'end'; stderr: number | 'end' }
export type Operation = { type: 'start'; payload: StartPayload } | { type: 'attach'; payload: AttachPayload }

/** How far the reader may be ahead of what the supervisor has been told. */
const ACKNOWLEDGE_EVERY_BYTES = 256 * 1024

/** About ten seconds. */
const KILL_TRIES = 15

/** One reader's connection to one process: what exec, shell and managed processes share. */
export class ProcessStream implements ChannelHandler {
  readonly #sandbox: Sandbox
  readonly #operation: Operation
  readonly #reader: ProcessReader
  /** Those that the stream began with: after a stop the sandbox has none, or others. */
  #link: SupervisorLink | undefined
  #tracker: ProcessTracker | undefined
  #channel: Channel | undefined
  #ended = false
  /** Something came back, so the operation has begun and must not be sent a second time. */
  #answered = false
  #retried = false
  /** It has been told where its output begins, or has some. */
  #reading = false
  #kind: ProcessKind = 'exec'
  /** Began by this stream, so that an error takes it off the count again. */
  #began = false
  #acknowledged = [0, 0, 0]
  #acknowledgedToSupervisor = [0, 0, 0]

  constructor(sandbox: Sandbox, operation: Operation, reader: ProcessReader) {
    this.#sandbox = sandbox
    this.#operation = operation
    this.#reader = reader
  }

  get id(): string {
    return this.#operation.payload.id
  }

  /** Sends the operation. Rejects when the sandbox cannot be spoken to; every later failure goes to the reader. */
  async open(kind: ProcessKind, signal?: AbortSignal): Promise<void> {
    if (this.#operation.type === 'start') requireNotHeld(this.#sandbox)
    const tracker = this.#sandbox.tracker
    this.#tracker = tracker
    this.#link = this.#sandbox.link
    this.#kind = kind
    if (this.#operation.type === 'start') this.#began = tracker.begin(this.id, kind)
    try {
      await this.#send(this.#link, signal)
    } catch (error) {
      if (this.#began) tracker.end(this.id)
      throw error
    }
  }

  async #send(link: SupervisorLink, signal?: AbortSignal): Promise<void> {
    const channel = await link.open(this, signal)
    this.#channel = channel
    if (this.#ended) return channel.destroy()
    channel.send(this.#operation.type === 'start' ? FRAME.start : FRAME.attach, this.#operation.payload)
  }

  /** Sends stdin. False: full, wait for `drained`. */
  write(data: Uint8Array): boolean {
    return this.#channel?.write(data) ?? true
  }

  /** Sends the end of stdin. */
  writeEnd(): void {
    this.#channel?.writeEnd()
  }

  drained(): Promise<void> {
    return this.#channel?.drained() ?? Promise.resolve()
  }

  pause(): void {
    this.#channel?.pause()
  }

  resume(): void {
    this.#channel?.resume()
  }

  /** The reader has the stream up to here. Told to the supervisor in steps; `now` for the rest. */
  acknowledge(stream: 1 | 2, offset: number, now = false): void {
    if (this.#ended || offset <= (this.#acknowledged[stream] as number)) return
    this.#acknowledged[stream] = offset
    if (now || offset - (this.#acknowledgedToSupervisor[stream] as number) >= ACKNOWLEDGE_EVERY_BYTES) this.#tell()
  }

  /** Tells the supervisor where this reader is, also when it has moved nowhere yet: what comes before is nobody's any more. */
  confirm(): void {
    if (!this.#ended) this.#tell()
  }

  /** Tells what has been acknowledged and not been told yet. */
  flush(): void {
    if (
      !this.#ended &&
      (this.#acknowledgedToSupervisor[1] !== this.#acknowledged[1] || this.#acknowledgedToSupervisor[2] !== this.#acknowledged[2])
    )
      this.#tell()
  }

  #tell(): void {
    this.#acknowledgedToSupervisor = [...this.#acknowledged]
    if (this.#channel !== undefined)
      this.#link?.acknowledge(
        this.#channel.number,
        this.#acknowledgedToSupervisor[1] as number,
        this.#acknowledgedToSupervisor[2] as number,
      )
  }

  /**
   * TERM, after `graceMs` KILL, to the process and all that it has started. Rejects with PROCESS_NOT_RUNNING or EXEC_NOT_FOUND when there
   * is none. The order goes by another connection than the start and may overtake it: an id that is not known yet is asked for again.
   */
  async kill(cause: KillCause, graceMs: number): Promise<void> {
    await retry(async () => this.#link?.call('kill', { id: this.id, cause, grace_ms: graceMs }), {
      waitMs: (error, failures) => (this.#mayBeOnItsWay(error) && failures <= KILL_TRIES ? Math.min(10 * 2 ** failures, 1000) : undefined),
    })
  }

  #mayBeOnItsWay(error: unknown): boolean {
    return this.#operation.type === 'start' && !this.#answered && error instanceof BoxofficeError && error.code === 'EXEC_NOT_FOUND'
  }

  /** The reader goes; the process lives on as its `orphan_ms` says. */
  leave(): void {
    if (this.#ended) return
    this.#ended = true
    this.#channel?.destroy()
    this.#tracker?.left(this.id)
  }

  data(stream: 1 | 2, piece: Buffer): void {
    this.#answered = true
    this.#reading = true
    if (!this.#ended) this.#reader.output(stream, piece)
  }

  frame(type: number, payload: Record<string, unknown>): void {
    this.#answered = true
    if (type === FRAME.ready) this.#onReady(payload)
    else if (type === FRAME.exit) this.#onExit(payload)
    else if (type === FRAME.error) this.#onError(payload)
    else this.#fail(invalid())
  }

  closed(): void {
    if (this.#ended) return
    // A channel can break before the supervisor has read the operation. The id makes it safe to say it again: get-or-create.
    const link = this.#link as SupervisorLink
    if (!this.#answered && !this.#retried && link.connected) {
      this.#retried = true
      this.#send(link).catch(() => this.#broken(link))
      return
    }
    this.#broken(link)
  }

  #broken(link: SupervisorLink): void {
    void whyBroken(this.#sandbox, link).then((error) => {
      if (error.code === 'SANDBOX_LOST') this.#tracker?.end(this.id)
      this.#fail(error)
    })
  }

  #onReady(payload: Record<string, unknown>): void {
    const ready = Ready.safeParse(payload)
    if (!ready.success) return this.#fail(invalid())
    this.#reading = true
    const { stdout, stderr } = ready.data
    this.#acknowledged = [0, stdout.offset, stderr.offset]
    this.#acknowledgedToSupervisor = [...this.#acknowledged]
    if (!this.#ended) this.#reader.ready(ready.data)
  }

  #onExit(payload: Record<string, unknown>): void {
    const exit = Exit.safeParse(payload)
    if (!exit.success) return this.#fail(invalid())
    this.#tracker?.ended(exit.data, this.#kind)
    if (this.#ended) return
    this.#ended = true
    this.#reader.exit(exit.data)
  }

  #onError(payload: Record<string, unknown>): void {
    if (this.#began) this.#tracker?.end(this.id)
    this.#fail(processError(parseFault(payload), { op: this.#operation.type, id: this.id, reading: this.#reading }))
  }

  #fail(error: BoxofficeError): void {
    if (this.#ended) return
    this.#ended = true
    this.#channel?.destroy()
    this.#reader.failed(error)
  }
}

const invalid = (): BoxofficeError => new BoxofficeError('INTERNAL', 'An internal error occurred; the log has the request_id')
