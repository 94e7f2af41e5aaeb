import type { Signal } from '@boxoffice/protocol'
import type { Exit } from '../base/exec-result.ts'
import type { Attachment } from '../stream/attachment.ts'
import { deliver, discard, type OutputCallbacks } from './deliver.ts'

/** Where a client left a process: enough for `exec.attach` to go on without losing or repeating a byte. */
export type RunPosition = { execId: string; stdoutOffset: number; stderrOffset: number }

/** stdin of a process. Writing waits while the process does not read. */
export type Stdin = {
  /** Resolves when the bytes are on their way; rejects with `STDIN_CLOSED` when the process has ended. */
  write(data: string | Uint8Array): Promise<void>
  /**
   * Resolves when the sandbox has all that was written: the process gets it even where this client leaves then. Up to 512 KiB wait
   * there for a process that does not read. Rejects with `STDIN_CLOSED` when the process has ended before.
   */
  flush(): Promise<void>
  /** End of input. */
  end(): Promise<void>
  /** Writes all of `source`, then ends stdin. */
  from(source: AsyncIterable<string | Uint8Array>): Promise<void>
}

/** An output stream: an async iterable of bytes with one reader at a time. What is not read holds the process up. */
export type Output = AsyncIterable<Uint8Array> & {
  /** All that is to come, as UTF-8. */
  text(): Promise<string>
  bytes(): Promise<Uint8Array<ArrayBuffer>>
  /**
   * Line by line, as UTF-8 and without line ends. A line of more than 1 MiB comes in parts. Leaving the loop early loses what was
   * read beyond the line, and leaves the process running.
   */
  lines(): AsyncGenerator<string, void, undefined>
}

/**
 * A running command. Dropped connections are mended underneath: streams go on with the next byte. `exit` rejects only when
 * the end cannot be known: `ConnectionError`, `SANDBOX_LOST`, `TAKEN_OVER`, `DETACHED`, or the reason of an abort.
 *
 * At most 768 KiB of a stream wait unread, then the process waits: read both streams, or use `text()`, which drops stderr
 * if nobody reads it.
 */
export class Run {
  readonly execId: string
  /** In the sandbox; undefined for a process that could not be spawned. */
  readonly pid: number | undefined
  readonly stdin: Stdin
  readonly stdout: Output
  readonly stderr: Output
  readonly exit: Promise<Exit>
  readonly #attachment: Attachment

  constructor(attachment: Attachment, pid: number | undefined, callbacks: OutputCallbacks = {}) {
    this.#attachment = attachment
    this.execId = attachment.id
    this.pid = pid
    this.stdin = stdinOf(attachment)
    this.stdout = attachment.stdout
    this.stderr = attachment.stderr
    this.exit = deliver(attachment, callbacks)
  }

  /** stdout to its end, as UTF-8. Drops stderr meanwhile, unless it has a reader. */
  async text(): Promise<string> {
    if (!this.#attachment.stderr.reading) discard(this.#attachment.stderr)
    return await this.stdout.text()
  }

  /** stdout line by line, as `stdout.lines()`. Drops stderr meanwhile, unless it has a reader. */
  lines(): AsyncGenerator<string, void, undefined> {
    if (!this.#attachment.stderr.reading) discard(this.#attachment.stderr)
    return this.stdout.lines()
  }

  /** Resolves when the first `bytes` bytes of stdout (or stderr) have come; rejects if the stream ends before. */
  outputReaches(bytes: number, stream: 'stdout' | 'stderr' = 'stdout'): Promise<void> {
    return this.#attachment[stream].reaches(bytes)
  }

  /** Sends a signal to the process group. */
  signal(signal: Signal | `SIG${Signal}`): void {
    this.#attachment.send({ type: 'signal', signal })
  }

  /** Asks for the end: end of stdin, TERM after 5 s, KILL after 5 more. `exit` tells how it went. */
  close(): void {
    this.#attachment.send({ type: 'close' })
  }

  /**
   * Leaves the process and tells where. Started with `detach: true` it goes on to its own end; else the server ends it 30 s
   * after its last client has left. `exit` rejects with `DETACHED`.
   */
  detach(): RunPosition {
    const { stdout, stderr } = this.#attachment
    this.#attachment.detach()
    return { execId: this.execId, stdoutOffset: stdout.consumed, stderrOffset: stderr.consumed }
  }
}

export const stdinOf = ({ stdin }: Attachment): Stdin => ({
  write: (data) => stdin.write(data),
  flush: () => stdin.flush(),
  end: () => stdin.end(),
  async from(source) {
    for await (const data of source) await stdin.write(data)
    await stdin.end()
  },
})
