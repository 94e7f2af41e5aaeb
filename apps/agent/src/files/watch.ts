import { BoxofficeError } from '@boxoffice/protocol'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { Channel } from '../supervisor/link.ts'
import { WatchLine } from '../supervisor/payloads.ts'
import { WireViolation } from '../supervisor/wire.ts'
import { openFileOperation } from './files.ts'
import { hiddenIn, isHidden } from './hidden.ts'
import { JsonLines } from './json-lines.ts'
import type { SandboxPath } from './paths.ts'

/** What a watch brings; after `ended` or `failed` nothing more comes. */
export interface WatchSink {
  /** Paths are relative to the watched directory. */
  happened(line: WatchLine): void
  /** The directory was removed or moved. */
  ended(): void
  failed(error: BoxofficeError): void
}

/** One watch of one directory, inside the sandbox and as its user. What comes before there is a sink waits. */
export class FileWatch {
  readonly #aborter = new AbortController()
  readonly #waiting: ((sink: WatchSink) => void)[] = []
  #sink: WatchSink | undefined
  #channel: Channel | undefined

  /**
   * Resolves when the directory is watched. Rejects with UNSUPPORTED for a supervisor of before, with RATE_LIMITED above
   * `WATCH_LIMITS`, else with what is wrong with the path.
   */
  static async open(
    sandbox: Sandbox,
    directory: SandboxPath,
    { recursive, signal }: { recursive: boolean; signal: AbortSignal },
  ): Promise<FileWatch> {
    if (!sandbox.link.watches)
      throw new BoxofficeError(
        'UNSUPPORTED',
        'files/watch: this sandbox was started by an older release, which cannot watch; start a new one',
      )
    const { root, path, given } = directory
    const hidden = hiddenIn(directory)
    const watch = new FileWatch()
    const opened = Promise.withResolvers<void>()
    let isOpen = false
    const lines = new JsonLines((value) => {
      const line = WatchLine.parse(value)
      if (line.e === 'overflow' || !isHidden(line.p, hidden)) watch.#tell((sink) => sink.happened(line))
    })
    watch.#channel = await openFileOperation(
      sandbox,
      { op: 'watch', root, path, recursive },
      {
        given,
        signal: AbortSignal.any([signal, watch.#aborter.signal]),
        sink: {
          result: () => {
            isOpen = true
            opened.resolve()
            // Until somebody takes what comes.
            if (watch.#sink === undefined) watch.pause()
          },
          data(piece) {
            // Nothing holds the supervisor up before, so that what it sent would be kept without a bound.
            if (!isOpen) throw new WireViolation('a watch told of a change before its result')
            lines.push(piece)
          },
          end: () => watch.#tell((sink) => sink.ended()),
          failed: (error) => {
            opened.reject(error)
            watch.#tell((sink) => sink.failed(error))
          },
        },
      },
    )
    await opened.promise
    return watch
  }

  begin(sink: WatchSink): void {
    this.#sink = sink
    for (const tell of this.#waiting.splice(0)) tell(sink)
    this.resume()
  }

  /** Backpressure: the supervisor holds a bounded number of changes, then drops them and says `overflow`. */
  pause(): void {
    this.#channel?.pause()
  }

  resume(): void {
    this.#channel?.resume()
  }

  close(): void {
    this.#aborter.abort()
  }

  #tell(tell: (sink: WatchSink) => void): void {
    if (this.#sink === undefined) this.#waiting.push(tell)
    else tell(this.#sink)
  }
}
