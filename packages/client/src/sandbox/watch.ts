import { deferred } from '@boxoffice/kit/deferred'
import { sleep } from '@boxoffice/kit/sleep'
import { CLOSE, type FileChangeKind, type FileRoot } from '@boxoffice/protocol'
import { isCode } from '../base/errors.ts'
import { type OptionNames, refuseUnknown } from '../base/known-options.ts'
import { query } from '../base/query.ts'
import { anySignal } from '../base/signals.ts'
import type { Dataplane } from '../dataplane/dataplane.ts'
import { afterDrop, type Drop, leadsNowhere } from '../stream/reconnect.ts'
import { runWatchConnection, type WatchFrame } from '../stream/watch-connection.ts'

export type WatchOptions = {
  /** Also what is below the directory. Default false. */
  recursive?: boolean | undefined
  root?: FileRoot | undefined
  /** Ends the watch: iterating stops. */
  signal?: AbortSignal | undefined
}

/** What happened to a path; `overflow`: changes are lost, so list the directory again. */
export type FileChange = { type: FileChangeKind; path: string; directory: boolean } | { type: 'overflow' }

const WATCH: OptionNames<WatchOptions> = { recursive: true, root: true, signal: true }
/** Changes that wait for the reader; above it they are dropped for one `overflow`. */
const MAX_WAITING = 10_000
const LOST = 1006

/**
 * The changes in one directory, over as many connections as it takes: a connection that was lost is an `overflow`. Iterating ends when
 * the directory is removed, the signal aborts or `close()` is called, and throws what coming back cannot mend.
 */
export class FileWatch implements AsyncIterable<FileChange> {
  /** Resolves when the directory is watched. */
  readonly watching = deferred<void>()
  readonly #dataplane: Dataplane
  readonly #target: string
  readonly #life = new AbortController()
  #waiting: FileChange[] = []
  #wake = deferred<void>()
  #wasReady = false
  #isReady = false
  #ended: { error?: unknown } | undefined

  constructor(dataplane: Dataplane, path: string, { recursive, root, signal }: WatchOptions) {
    this.#dataplane = dataplane
    this.#target = `/files/watch${query({ path, recursive, root })}`
    this.watching.promise.catch(() => {})
    const stop = anySignal(signal, dataplane.signal)
    const leave = (): void => this.close()
    if (stop?.aborted) leave()
    else stop?.addEventListener('abort', leave, { once: true })
    void this.#keep().finally(() => stop?.removeEventListener('abort', leave))
  }

  /** Stops watching; iterating ends. */
  close(): void {
    this.#end()
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<FileChange, void, undefined> {
    try {
      for (;;) {
        const changes = this.#waiting
        this.#waiting = []
        yield* changes
        if (this.#waiting.length > 0) continue
        if (this.#ended?.error !== undefined) throw this.#ended.error
        if (this.#ended !== undefined) return
        await this.#wake.promise
      }
    } finally {
      this.close()
    }
  }

  /** One connection after the other. */
  async #keep(): Promise<void> {
    let attempt = 0
    let failingSince = performance.now()
    let rejected: string | undefined
    while (this.#ended === undefined) {
      const { endpoints, reconnectWindowMs: windowMs } = this.#dataplane
      const endpoint = endpoints.current
      try {
        const { drop, token } = await this.#attempt(rejected)
        if (this.#ended !== undefined) return
        const renewed = rejected !== undefined
        if (token !== undefined) rejected = undefined
        if (this.#isReady) {
          endpoints.worked(endpoint)
          attempt = 0
          failingSince = performance.now()
        } else if (token !== undefined && leadsNowhere(endpoint, drop)) await endpoints.failed(endpoint, drop.unopened === true)
        const next = afterDrop(drop, { attempt: attempt++, failingForMs: performance.now() - failingSince, windowMs, renewed })
        if (next.type === 'fail') return this.#end(next.error)
        if (next.type === 'renew') rejected = token
        else await sleep(next.delayMs, this.#life.signal)
      } catch (error) {
        return this.#end(error)
      }
    }
  }

  async #attempt(rejected: string | undefined): Promise<{ token?: string; drop: Drop }> {
    const { token: tokens, endpoints } = this.#dataplane
    const url = endpoints.current.wsBaseUrl + this.#target
    this.#isReady = false
    let token: string
    try {
      token = await (rejected === undefined ? tokens.current() : tokens.renew(rejected))
    } catch (error) {
      if (!isCode(error, 'CONNECTION_FAILED')) throw error
      return { drop: { code: LOST, reason: error.message, url } }
    }
    const options = { url, token, signal: this.#life.signal, frame: (frame: WatchFrame) => this.#onFrame(frame) }
    const drop = await runWatchConnection(this.#dataplane, options)
    if (drop.code === CLOSE.done) this.#end()
    return { token, drop }
  }

  #onFrame(frame: WatchFrame): void {
    if (this.#ended !== undefined) return
    if (frame.type === 'ready') {
      this.#isReady = true
      // What happened while nobody watched is not known.
      if (this.#wasReady) this.#deliver({ type: 'overflow' })
      this.#wasReady = true
      this.watching.resolve()
    } else if (frame.type === 'change') this.#deliver({ type: frame.change, path: frame.path, directory: frame.directory })
    else if (frame.type === 'overflow') this.#deliver({ type: 'overflow' })
  }

  #deliver(change: FileChange): void {
    if (this.#waiting.length >= MAX_WAITING) this.#waiting = [{ type: 'overflow' }]
    else this.#waiting.push(change)
    this.#signal()
  }

  #signal(): void {
    this.#wake.resolve()
    this.#wake = deferred()
  }

  #end(error?: unknown): void {
    if (this.#ended !== undefined) return
    this.#ended = error === undefined ? {} : { error }
    if (error === undefined) this.watching.resolve()
    else this.watching.reject(error)
    this.#life.abort()
    this.#signal()
  }
}

/** Resolves when the directory is watched: what happens from then on is told. */
export const watchFiles = async (dataplane: Dataplane, path: string, options: WatchOptions): Promise<FileWatch> => {
  refuseUnknown('files.watch', options, WATCH)
  const watch = new FileWatch(dataplane, path, options)
  await watch.watching.promise
  return watch
}
