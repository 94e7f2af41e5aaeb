import { BoxofficeError, PROCESS_LIMITS, TIMES } from '@boxoffice/protocol'
import type { WebSocket } from 'ws'
import { type ProcessReader, ProcessStream } from '../../exec/process-stream.ts'
import type { AttachLease } from '../../sandbox/managed-processes.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import type { Ready } from '../../supervisor/payloads.ts'
import { LineSplitter } from './line-splitter.ts'

export type LineStreamOptions = {
  ws: WebSocket
  sandbox: Sandbox
  lease: AttachLease
  /** Where on stdout to begin: the start of a line. */
  from: number | 'end'
  /** The client reports what it has; otherwise what was handed to the network counts. */
  reports: boolean
  ready: (stdout: number, stdin: number) => void
  /** The process has ended, and every line has been sent. */
  exited: () => void
  failed: (error: BoxofficeError) => void
}

/**
 * Of a line that is not whole, so much stays unacknowledged, so that the supervisor has it if this agent dies. More would close its
 * window of 768 KiB, and the rest of the line would never come.
 */
const UNACKNOWLEDGED_BYTES = 512 * 1024
const FLUSH_AFTER_MS = 50
/** How long a process may take to read what a client wrote that has gone. */
const WRITTEN_WITHIN_MS = 5000

/**
 * One run's stdin and stdout as lines on one socket. The supervisor's connection is never paused: a client that reads slowly gets no
 * acknowledgements, which holds back stdout alone, and stderr is drained all the time [2-62].
 */
export class LineStream implements ProcessReader {
  readonly #options: LineStreamOptions
  readonly #stream: ProcessStream
  readonly #lines: LineSplitter
  #received = 0
  #sent = 0
  #handedOver = 0
  #reported = 0
  #stderr = 0
  #stdin = 0
  #flush: NodeJS.Timeout | undefined
  #progressAt = performance.now()
  #running = false
  readonly #begun = Promise.withResolvers<void>()

  constructor(options: LineStreamOptions) {
    this.#options = options
    this.#lines = new LineSplitter((line, bytes) => this.#send(line, bytes))
    const { lease, from, sandbox } = options
    this.#stream = new ProcessStream(sandbox, { type: 'attach', payload: { id: lease.run, stdout: from, stderr: 'end' } }, this)
  }

  /** Resolves when lines can be written, or never will. */
  async open(signal: AbortSignal): Promise<void> {
    const { sandbox, lease } = this.#options
    await lease.before
    // From now on nothing of its output is overwritten, also while the agent is away.
    await sandbox.link.call('detach', { id: lease.run, detach: false })
    await this.#stream.open('process', signal)
    await this.#begun.promise
  }

  ready({ stdout, stderr, stdin_offset }: Ready): void {
    this.#running = true
    this.#received = this.#sent = this.#handedOver = this.#reported = stdout.offset
    this.#options.lease.position = stdout.offset
    this.#stderr = stderr.offset
    this.#stdin = stdin_offset
    this.#stream.confirm()
    this.#options.ready(stdout.offset, stdin_offset)
    this.#begun.resolve()
  }

  output(stream: 1 | 2, piece: Buffer): void {
    if (stream === 2) {
      this.#stderr += piece.length
      return this.#stream.acknowledge(2, this.#stderr)
    }
    this.#received += piece.length
    if (!this.#lines.push(piece)) {
      this.#options.lease.position = this.#received
      return this.#options.failed(
        new BoxofficeError('PAYLOAD_TOO_LARGE', `stdout: a line is longer than ${PROCESS_LIMITS.lineBytes} bytes; it is left out`),
      )
    }
    if (this.#lines.held > UNACKNOWLEDGED_BYTES) this.#acknowledge(this.#received - UNACKNOWLEDGED_BYTES)
  }

  exit(): void {
    this.#running = false
    this.#begun.resolve()
    this.#lines.end()
    this.#options.exited()
  }

  failed(error: BoxofficeError): void {
    this.#running = false
    this.#begun.resolve()
    this.#options.failed(error)
  }

  /** To stdin. Resolves when there is room for more. */
  write(bytes: Buffer): Promise<void> | undefined {
    if (!this.#running) return undefined
    this.#stdin += bytes.length
    return this.#stream.write(bytes) ? undefined : this.#stream.drained()
  }

  /** How much of stdin the process has; undefined when it has ended. */
  async stdinOffset(): Promise<number | undefined> {
    const { sandbox, lease } = this.#options
    const { offset } = await sandbox.link.call('stdin_offset', { id: lease.run }).catch(() => ({ offset: undefined }))
    return typeof offset === 'number' ? offset : undefined
  }

  /** What the client says that it has. More than was sent is not believed. */
  report(offset: number): void {
    if (!this.#options.reports || offset > this.#sent || offset <= this.#reported) return
    this.#reported = offset
    this.#progressAt = performance.now()
    this.#acknowledge(offset)
  }

  /** Asked now and then: a client that takes nothing, or says nothing of it, is given up. */
  checkProgress(): void {
    const reported = this.#options.reports ? this.#reported : this.#sent
    const waits = this.#handedOver < this.#sent || this.#sent - reported >= UNACKNOWLEDGED_BYTES
    if (waits && performance.now() - this.#progressAt > TIMES.stalledReader * 1000)
      this.#options.failed(new BoxofficeError('TIMEOUT', `The client has read nothing for ${TIMES.stalledReader} s; attach again`))
  }

  /** The client goes. What it wrote still reaches the process, and until then nobody else may write. */
  leave(lost: boolean): void {
    this.#begun.resolve()
    clearTimeout(this.#flush)
    this.#stream.flush()
    const written = this.#running ? this.#written() : Promise.resolve()
    this.#options.lease.leave({ written, lost })
    void written.then(() => this.#stream.leave())
  }

  async #written(): Promise<void> {
    const until = performance.now() + WRITTEN_WITHIN_MS
    while (this.#running && performance.now() < until) {
      const offset = await this.stdinOffset()
      if (offset === undefined || offset >= this.#stdin) return
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }

  #send(line: Buffer, bytes: number): void {
    const { ws, sandbox, lease } = this.#options
    sandbox.activity.touch()
    if (this.#sent === this.#handedOver) this.#progressAt = performance.now()
    this.#sent += bytes
    const end = this.#sent
    ws.send(line, { binary: false }, (error) => {
      if (error) return
      this.#handedOver = end
      lease.position = end
      this.#progressAt = performance.now()
      if (!this.#options.reports) this.#acknowledge(end)
    })
  }

  #acknowledge(offset: number): void {
    this.#stream.acknowledge(1, offset)
    this.#flush ??= setTimeout(() => {
      this.#flush = undefined
      this.#stream.flush()
    }, FLUSH_AFTER_MS)
  }
}
