import { BoxofficeError, type SIGNALS } from '@boxoffice/protocol'
import { toExitFields } from '../exec/exit.ts'
import { type ProcessReader, ProcessStream } from '../exec/process-stream.ts'
import { endedWith, KILL_GRACE_MS } from '../http/ended.ts'
import { heldError } from '../sandbox/held.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { SupervisorExit } from '../supervisor/link.ts'
import type { Ready } from '../supervisor/payloads.ts'
import type { Attached, AttachMode, Attachments, Place, Size } from './attachments.ts'
import type { Beginning } from './begin.ts'
import { Flow } from './flow.ts'
import type { SocketKind } from './frames.ts'
import { TerminalSize } from './terminal-size.ts'
import { TextStream } from './text.ts'
import type { SocketWriter } from './writer.ts'

/** What an attachment asks of its socket. */
export interface AttachmentOwner {
  readonly writer: SocketWriter
  readonly binary: boolean
  /** False when the client may not use this process any more. */
  readonly entitled: boolean
  /** Stop reading the client, or go on. */
  holdReading(held: boolean): void
  /** The process has ended and everything has been handed to the network. */
  finished(ended: ReturnType<typeof endedWith>): void
  /** An error frame and a close. */
  fail(error: BoxofficeError): void
  /** An error frame; the socket stays. */
  report(error: BoxofficeError): void
}

export type AttachmentOptions = {
  kind: SocketKind
  sandbox: Sandbox
  beginning: Beginning
  attachments: Attachments
  owner: AttachmentOwner
}

/** One socket on one process: carries output, stdin, size and signals, and holds back whichever side is too fast. */
export class Attachment implements ProcessReader, Attached {
  readonly mode: AttachMode
  readonly #options: AttachmentOptions
  readonly #stream: ProcessStream
  readonly #texts: readonly TextStream[]
  readonly #flow: Flow
  readonly #size: TerminalSize
  #running = true
  #place: Place | undefined
  #stdinBlocked = false
  #closing: NodeJS.Timeout | undefined

  constructor(options: AttachmentOptions) {
    this.#options = options
    this.mode = options.beginning.mode
    this.#size = new TerminalSize({ wanted: options.beginning.size, resize: (size) => this.#call('resize', size) })
    this.#texts = [new TextStream(), new TextStream(), new TextStream()]
    this.#stream = new ProcessStream(options.sandbox, options.beginning.operation, this)
    const { owner, beginning } = options
    this.#flow = new Flow({ stream: this.#stream, writer: owner.writer, ack: beginning.ack, stalled: (error) => owner.fail(error) })
  }

  get id(): string {
    return this.#stream.id
  }

  get entitled(): boolean {
    return this.#options.owner.entitled
  }

  /** Somebody else who may is attached too. */
  get shared(): boolean {
    return this.#place?.others.some(({ entitled }) => entitled) ?? false
  }

  /** Until the exit has been seen. */
  get running(): boolean {
    return this.#running
  }

  open(signal: AbortSignal): Promise<void> {
    return this.#stream.open(this.#options.kind, signal)
  }

  // From the process.

  ready(ready: Ready): void {
    const { kind, beginning, attachments, sandbox, owner } = this.#options
    const place = attachments.join(sandbox.id, this.id, this)
    this.#place = place
    const owns = place.owner === this
    this.#flow.begin(ready.stdout.offset, ready.stderr.offset)
    const size = place.size ?? ready.pty
    owner.writer.json({
      type: 'ready',
      [kind === 'exec' ? 'exec_id' : 'shell_id']: ready.id,
      pid: ready.pid,
      attached: ready.attached,
      stdout: streamStart(beginning.asked.stdout, ready.stdout),
      stderr: streamStart(beginning.asked.stderr, ready.stderr),
      stdin: { offset: ready.stdin_offset },
      ...(kind === 'shell' && size ? { size_owner: owns, cols: size.cols, rows: size.rows } : {}),
    })
    if (kind === 'shell') this.#size.joined(place, { owns, ready, asked: beginning.asked.stdout })
  }

  output(stream: 1 | 2, piece: Buffer): void {
    const { writer, binary } = this.#options.owner
    if (binary) {
      this.#flow.sent(stream, piece.length)
      writer.binary(stream, piece, this.#flow.flushed[stream])
    } else if (this.#options.beginning.encoding === 'base64') {
      this.#sendText(stream, { data: piece.toString('base64'), bytes: piece.length, encoding: 'base64' })
    } else {
      const chunk = this.#texts[stream]?.push(piece)
      if (chunk !== undefined) this.#sendText(stream, textFields(chunk))
    }
    this.#flow.check()
    this.#size.sent(this.#flow.offset(1))
  }

  exit(exit: SupervisorExit): void {
    this.#running = false
    clearTimeout(this.#closing)
    const { owner } = this.#options
    if (!owner.binary && this.#options.beginning.encoding === 'utf8') {
      for (const stream of [1, 2] as const) {
        const rest = this.#texts[stream]?.end()
        if (rest !== undefined) this.#sendText(stream, textFields(rest))
      }
    }
    // The close waits until the client has read so far: a slow reader is held to the stall limit, not to that of a closing handshake.
    this.#flow.watchStall()
    owner.writer.json({ type: 'exit', ...toExitFields(exit) }, () => {
      this.dispose()
      owner.finished(endedWith(exit.cause))
    })
  }

  failed(error: BoxofficeError): void {
    this.#running = false
    clearTimeout(this.#closing)
    this.#options.owner.fail(error)
  }

  #sendText(stream: 1 | 2, fields: { data: string; bytes: number; encoding?: 'base64'; lossy?: true }): void {
    const offset = this.#flow.sent(stream, fields.bytes)
    const type = stream === 1 ? 'stdout' : 'stderr'
    this.#options.owner.writer.json({ type, ...fields, offset }, () => this.#flow.flushed[stream](fields.bytes))
  }

  // From the client.

  stdin(data: Uint8Array, eof: boolean): void {
    if (this.#refused('stdin') || !this.#running) return
    const room = this.#stream.write(data)
    if (eof) this.#stream.writeEnd()
    if (!room && !this.#stdinBlocked) this.#blockStdin()
  }

  /** While the process does not read, neither do we. */
  #blockStdin(): void {
    this.#stdinBlocked = true
    this.#options.owner.holdReading(true)
    this.#flow.hear(false)
    void this.#stream.drained().then(() => {
      this.#stdinBlocked = false
      this.#flow.hear(true)
      this.#options.owner.holdReading(false)
    })
  }

  /** Offsets from a ping: in acknowledged mode, what the client has. */
  report(stdout: number | undefined, stderr: number | undefined): void {
    this.#flow.report(1, stdout)
    this.#flow.report(2, stderr)
  }

  /** Asked now and then. */
  checkProgress(): void {
    if (this.#running) this.#flow.checkProgress()
  }

  async stdinOffset(): Promise<number | undefined> {
    if (!this.#running) return undefined
    const { offset } = await this.#options.sandbox.link.call('stdin_offset', { id: this.id })
    return typeof offset === 'number' ? offset : undefined
  }

  signal(signal: (typeof SIGNALS)[number]): void {
    if (this.#refused('signal') || !this.#running) return
    const held = signal === 'CONT' ? heldError(this.#options.sandbox) : undefined
    if (held !== undefined) return this.#options.owner.report(held)
    this.#call('signal', { signal })
  }

  resize(size: Size, claim: boolean): void {
    if (this.#options.kind !== 'shell' || this.#refused('resize')) return
    if (claim) this.#place?.claim()
    this.#size.want(size, this.#place?.owner === this)
  }

  /** `close`: the end of stdin, TERM after 5 s, KILL after 5 more; a shell is hung up at once [4-129]. */
  end(): void {
    if (!this.#running) return
    // A shell that is about to wait for input notices the signal only when some comes: the end of it, which ends any other shell too.
    if (this.#options.kind === 'shell') this.#call('signal', { signal: 'HUP' })
    this.#stream.writeEnd()
    this.#closing ??= setTimeout(() => this.#call('kill', { cause: 'closed', grace_ms: KILL_GRACE_MS }), KILL_GRACE_MS)
    // It holds also where the client leaves; an agent that ends leaves the process to its disconnect grace.
    this.#closing.unref()
  }

  kill(cause: 'closed' | 'released' | 'expired' | 'revoked'): void {
    if (this.#running) this.#stream.kill(cause, KILL_GRACE_MS).catch((error: unknown) => this.#callFailed(error))
  }

  get detach(): boolean {
    return this.#options.beginning.detach
  }

  // From the other sockets of this process.

  takenOver(): void {
    clearTimeout(this.#closing)
    this.#options.owner.fail(new BoxofficeError('TAKEN_OVER', 'Another socket has attached to this process in the place of this one'))
  }

  becameOwner(): void {
    if (this.#running) this.#size.owned()
  }

  redraw(): void {
    if (this.#running) this.#size.redraw()
  }

  /** Leaves the process; it goes on by its own rules. */
  dispose(): void {
    this.#flow.dispose()
    this.#stream.leave()
    this.#size.dispose()
    this.#place?.leave()
    this.#place = undefined
    this.#running = false
  }

  #refused(what: string): boolean {
    if (this.mode !== 'viewer') return false
    this.#options.owner.report(new BoxofficeError('CAPABILITY_DENIED', `A viewer cannot send ${what}; attach with another mode`))
    return true
  }

  /** One that has ended meanwhile is no error. */
  #call(op: string, fields: Record<string, unknown>): void {
    // There is no link while the sandbox is stopped, and then no process either.
    const called = async (): Promise<unknown> => this.#options.sandbox.link.call(op, { id: this.id, ...fields })
    called().catch((error: unknown) => this.#callFailed(error))
  }

  #callFailed(error: unknown): void {
    if (!(error instanceof BoxofficeError) || error.code === 'PROCESS_NOT_RUNNING' || error.code === 'EXEC_NOT_FOUND') return
    this.#options.owner.report(error)
  }
}

const textFields = ({
  data,
  bytes,
  lossy,
}: {
  data: string
  bytes: number
  lossy: boolean
}): { data: string; bytes: number; lossy?: true } => (lossy ? { data, bytes, lossy } : { data, bytes })

const streamStart = (asked: number | 'end', { offset, oldest, end }: Ready['stdout']): object => ({
  offset,
  oldest,
  end,
  ...(asked !== 'end' && offset > asked ? { gap: { from: asked, to: offset } } : {}),
})
