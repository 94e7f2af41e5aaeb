import { BoxofficeError, CLOSE, LinesClientFrame } from '@boxoffice/protocol'
import type { AttachLease, LeaseHolder } from '../../sandbox/managed-processes.ts'
import { WholeSocket, type WholeSocketOptions } from '../session/whole-socket.ts'
import { LineStream } from './line-stream.ts'

export type ProcessSocketOptions = WholeSocketOptions & {
  /** Binary messages are control frames (`boxoffice.v1.lines`). */
  control: boolean
  lease: AttachLease
  /** Where its stdout begins for this client, and what is lost before that. */
  from: number | 'end'
  gap: { from: number; to: number } | undefined
}

/**
 * The lines of one managed process on one socket (packages/protocol/src/dataplane/processes.ts). Its ends are `SocketSession`'s; the process goes on, it is
 * the sandbox's.
 */
export class ProcessSocket extends WholeSocket implements LeaseHolder {
  readonly #options: ProcessSocketOptions
  readonly #lines: LineStream

  constructor(options: ProcessSocketOptions) {
    super(options)
    this.#options = options
    const { ws, sandbox, lease, from } = options
    this.#lines = new LineStream({
      ws,
      sandbox,
      lease,
      from,
      reports: options.control,
      ready: (stdout, stdin) => this.#ready(stdout, stdin),
      exited: () => this.session.close(CLOSE.done),
      failed: (error) => this.session.fail(error),
    })
    this.admit('exec')
    this.session.use(sandbox)
    // Lines that come before the process is there wait.
    this.session.enqueue(() => this.#lines.open(this.session.signal))
  }

  takenOver(): void {
    this.session.fail(new BoxofficeError('TAKEN_OVER', 'Another socket has attached to this process in the place of this one'))
  }

  // What the session asks for.

  checkProgress(): void {
    this.#lines.checkProgress()
  }

  tell(error: BoxofficeError): number {
    // Among the lines it would be one of the process's.
    this.#control({ type: 'error', error: error.envelope(this.#options.requestId).error })
    return error.code === 'PAYLOAD_TOO_LARGE' ? CLOSE.tooLarge : error.closeCode
  }

  dispose(lost: boolean): void {
    this.#lines.leave(lost)
  }

  message(data: Buffer, isBinary: boolean): void | Promise<void> {
    this.#options.sandbox.activity.touch()
    if (!isBinary) return this.#lines.write(data.at(-1) === NEWLINE ? data : Buffer.concat([data, NEWLINE_BYTES]))
    if (!this.#options.control) return this.session.close(CLOSE.badType, 'binary messages need the subprotocol boxoffice.v1.lines')
    return this.#onControl(parseFrame(data))
  }

  #ready(stdout: number, stdin: number): void {
    const { lease, from } = this.#options
    // What a process that was not held up has overwritten since it was asked.
    const gap = from !== 'end' && stdout > from ? { from: this.#options.gap?.from ?? from, to: stdout } : this.#options.gap
    this.#control({
      type: 'ready',
      process_id: lease.processId,
      run: lease.run,
      stdout: { offset: stdout, ...(gap === undefined ? {} : { gap }) },
      stdin: { offset: stdin },
    })
  }

  async #onControl(frame: LinesClientFrame): Promise<void> {
    if (frame.type === 'stdin') return this.#lines.write(Buffer.from(frame.data, 'base64'))
    if (frame.type === 'ping') {
      this.#lines.report(frame.stdout_offset)
      const offset = await this.#lines.stdinOffset()
      if (offset !== undefined) this.#control({ type: 'pong', stdin_offset: offset })
      return
    }
    return this.renew(frame.token, () => this.#control({ type: 'auth_ok' }))
  }

  #control(frame: object): void {
    if (this.#options.control && !this.session.closing) this.#options.ws.send(Buffer.from(JSON.stringify(frame)), { binary: true })
  }
}

const NEWLINE = 0x0a
const NEWLINE_BYTES = Buffer.of(NEWLINE)

const parseFrame = (data: Buffer): LinesClientFrame => {
  try {
    return LinesClientFrame.parse(JSON.parse(data.toString()))
  } catch (cause) {
    throw new BoxofficeError('INVALID_REQUEST', 'frame: a binary message must be one of the control frames auth, ping and stdin', { cause })
  }
}
