import { deferred } from '@boxoffice/kit/deferred'
import { ResendBuffer } from '@boxoffice/kit/resend-buffer'
import { sleep } from '@boxoffice/kit/sleep'
import { CLOSE } from '@boxoffice/protocol'
import { BoxofficeError, GapError, isCode } from '../base/errors.ts'
import { type OptionNames, refuseUnknown } from '../base/known-options.ts'
import { anySignal } from '../base/signals.ts'
import type { Dataplane } from '../dataplane/dataplane.ts'
import { type LineConnection, type LinesReady, openLineConnection } from './line-connection.ts'
import { afterDrop, type Drop, leadsNowhere } from './reconnect.ts'

export type LinesOptions = {
  /** Sends the client away that is attached now. Default: that is a conflict. */
  takeover?: boolean | undefined
  /** Leaves the process. */
  signal?: AbortSignal | undefined
}

const LINES: OptionNames<LinesOptions> = { takeover: true, signal: true }

const CONFIRM_EVERY_MS = 1_000
/** A writer waits while so much is not known to have reached the process. */
const MAX_UNCONFIRMED_BYTES = 1024 * 1024
/** Lines that wait for the reader; beyond, the server is told no more of what has come, and so stops. */
const MAX_WAITING_BYTES = 256 * 1024
/** So often an attach that goes on may be refused while the process is spoken of; then what is left to read is not kept any more. */
const MAX_REFUSALS = 3
const LOST = 1006

/**
 * One client's hold on a managed process's stdin and stdout, as lines, over as many connections as it takes: no line twice, none
 * left out. Iterating ends with the process; after an error that coming back cannot mend it throws.
 */
export class Lines implements AsyncIterable<string> {
  readonly processId: string
  readonly #dataplane: Dataplane
  readonly #resend = new ResendBuffer()
  readonly #life = new AbortController()
  /** Resolves at the first `ready`. */
  readonly attached = deferred<void>()
  #connection: LineConnection | undefined
  #run: string | undefined
  #takeover: boolean
  #refusals = 0
  #waiting: (string | GapError)[] = []
  #taken = 0
  #waitingBytes = 0
  #reportLater = false
  #wake = deferred<void>()
  #ended: { error?: unknown } | undefined

  constructor(dataplane: Dataplane, processId: string, { takeover = false, signal }: LinesOptions) {
    this.processId = processId
    this.#dataplane = dataplane
    this.#takeover = takeover
    this.attached.promise.catch(() => {})
    const stop = anySignal(signal, dataplane.signal)
    const leave = (): void => this.#end(stop?.reason)
    if (stop?.aborted) leave()
    else stop?.addEventListener('abort', leave, { once: true })
    void this.#keep().finally(() => stop?.removeEventListener('abort', leave))
  }

  /** Writes a line; its newline is added. Waits while the process does not read. Rejects when it has ended. */
  async send(line: string): Promise<void> {
    while (this.#ended === undefined && this.#resend.unconfirmedBytes > MAX_UNCONFIRMED_BYTES) await this.#wake.promise
    if (this.#ended !== undefined) throw this.#ended.error ?? new BoxofficeError('STDIN_CLOSED', `the process ${this.processId} has ended`)
    this.#resend.sent(line)
    this.#connection?.send(line)
    if (this.#resend.unconfirmedBytes > MAX_UNCONFIRMED_BYTES / 4) this.#ping()
  }

  /** Leaves the process running. */
  detach(): void {
    this.#end()
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<string, void, undefined> {
    for (;;) {
      const next = this.#next()
      if (next instanceof GapError) throw next
      if (next !== undefined) {
        this.#waitingBytes -= next.length
        if (this.#reportLater && this.#waitingBytes < MAX_WAITING_BYTES) this.#report()
        yield next
      } else if (this.#ended !== undefined) {
        if (this.#ended.error !== undefined) throw this.#ended.error
        return
      } else await this.#wake.promise
    }
  }

  /** Not `shift`: that moves all others, which may be many. */
  #next(): string | GapError | undefined {
    if (this.#taken === this.#waiting.length) {
      this.#waiting = []
      this.#taken = 0
      return undefined
    }
    return this.#waiting[this.#taken++]
  }

  /** One connection after the other. */
  async #keep(): Promise<void> {
    let attempt = 0
    let failingSince = performance.now()
    let renewed = false
    let fellBack = false
    let rejected: string | undefined
    while (this.#ended === undefined) {
      const { endpoints, reconnectWindowMs: windowMs } = this.#dataplane
      const endpoint = endpoints.current
      try {
        const { token, drop, wasReady } = await this.#attempt(rejected)
        if (this.#ended !== undefined) return
        if (drop.code === CLOSE.done) return this.#end()
        if (token !== undefined) rejected = undefined
        if (wasReady) {
          endpoints.worked(endpoint)
          this.#takeover = true
          this.#refusals = 0
          attempt = 0
          failingSince = performance.now()
          renewed = false
        } else {
          // A browser does not tell why an upgrade was refused; the same question over HTTP does.
          if (drop.unopened) await this.#whyRefused()
          if (token !== undefined && leadsNowhere(endpoint, drop)) await endpoints.failed(endpoint, drop.unopened === true)
          // Another endpoint has a window of its own; the next ones have not, or two that lead nowhere would be tried for ever.
          if (!fellBack && endpoints.current !== endpoint) {
            fellBack = true
            failingSince = performance.now()
          }
        }
        const next = afterDrop(drop, { attempt: attempt++, failingForMs: performance.now() - failingSince, windowMs, renewed })
        if (next.type === 'fail') return this.#end(next.error)
        if (next.type === 'reconnect') await sleep(next.delayMs, this.#life.signal)
        if (next.type === 'renew') {
          renewed = true
          rejected = token
        }
      } catch (error) {
        return this.#end(error)
      }
    }
  }

  /** One token and one connection, to its end. A broker that does not answer counts as a drop like any other. */
  async #attempt(rejected: string | undefined): Promise<{ token?: string; drop: Drop; wasReady: boolean }> {
    const { token: tokens, endpoints } = this.#dataplane
    let token: string
    try {
      token = await (rejected === undefined ? tokens.current() : tokens.renew(rejected))
    } catch (error) {
      if (!isCode(error, 'CONNECTION_FAILED')) throw error
      return { drop: { code: LOST, reason: error.message, url: endpoints.current.httpBaseUrl }, wasReady: false }
    }
    return { token, ...(await this.#connect(token)) }
  }

  /** Throws what cannot be mended: no such process, one that has ended, or somebody else's. */
  async #whyRefused(): Promise<void> {
    try {
      const response = await this.#dataplane.request(`/processes/${encodeURIComponent(this.processId)}`, { signal: this.#life.signal })
      const { status, attached } = (await response.json()) as { status?: string; attached?: boolean }
      // Of the run that this client is attached to the rest can be had, also when that has ended; only not for ever.
      const over = this.#run === undefined ? status !== 'running' : ++this.#refusals >= MAX_REFUSALS
      if (over) throw new BoxofficeError('PROCESS_NOT_RUNNING', `the process ${this.processId} has ended`, { status: 409 })
      if (attached && !this.#takeover)
        throw new BoxofficeError('ALREADY_ATTACHED', `the process ${this.processId} has another client; take over to replace it`, {
          status: 409,
        })
    } catch (error) {
      if (!isCode(error, 'CONNECTION_FAILED') && !isCode(error, 'BACKEND_UNAVAILABLE') && !isCode(error, 'SANDBOX_STARTING')) throw error
    }
  }

  #connect(token: string): Promise<{ drop: Drop; wasReady: boolean }> {
    const { endpoints } = this.#dataplane
    const search = new URLSearchParams({ takeover: String(this.#takeover) })
    if (this.#run !== undefined) {
      search.set('run', this.#run)
      search.set('stdout_offset', String(this.#resend.received))
    }
    const { promise, resolve } = deferred<{ drop: Drop; wasReady: boolean }>()
    let wasReady = false
    const confirm = setInterval(() => this.#resend.unconfirmedBytes > 0 && this.#ping(), CONFIRM_EVERY_MS)
    const leave = (): void => connection.close(CLOSE.done)
    const connection = openLineConnection({
      dataplane: this.#dataplane,
      url: `${endpoints.current.wsBaseUrl}/processes/${encodeURIComponent(this.processId)}/ws?${search}`,
      token,
      handlers: {
        ready: (frame, ready) => {
          wasReady = true
          this.#onReady(frame, ready)
        },
        line: (line) => this.#onLine(line),
        pong: (offset) => this.#confirmed(offset),
        probe: () => this.#ping(),
        ended: (drop) => {
          clearInterval(confirm)
          this.#life.signal.removeEventListener('abort', leave)
          this.#connection = undefined
          resolve({ drop, wasReady })
        },
      },
    })
    this.#life.signal.addEventListener('abort', leave, { once: true })
    // It was left while a token was on its way.
    if (this.#life.signal.aborted) leave()
    return promise
  }

  #onReady({ run, stdout, stdin }: LinesReady, connection: LineConnection): void {
    this.#connection = connection
    if (this.#run === undefined) this.#resend.begin(stdout.offset, stdin.offset)
    else for (const bytes of this.#resend.resume(stdout.offset, stdin.offset)) connection.stdin(bytes)
    if (stdout.gap !== undefined) this.#deliver(new GapError('stdout', stdout.gap.from, stdout.gap.to))
    this.#run = run
    this.attached.resolve()
  }

  #onLine(line: string): void {
    if (this.#ended !== undefined) return
    const due = this.#resend.got(line)
    this.#waitingBytes += line.length
    this.#deliver(line)
    if (due) this.#report()
  }

  /** A reader that is behind is not reported for: the server stops when enough is on the way. */
  #report(): void {
    this.#reportLater = this.#waitingBytes >= MAX_WAITING_BYTES
    if (!this.#reportLater) this.#ping()
  }

  #confirmed(offset: number): void {
    this.#resend.confirmed(offset)
    this.#signal()
  }

  #ping(): void {
    this.#connection?.ping(this.#reportLater ? 0 : this.#resend.received)
  }

  #deliver(next: string | GapError): void {
    this.#waiting.push(next)
    this.#signal()
  }

  #signal(): void {
    this.#wake.resolve()
    this.#wake = deferred()
  }

  #end(error?: unknown): void {
    if (this.#ended !== undefined) return
    this.#ended = error === undefined ? {} : { error }
    this.attached.reject(error ?? new BoxofficeError('PROCESS_NOT_RUNNING', `the process ${this.processId} has ended`))
    this.#life.abort()
    this.#signal()
  }
}

/** Resolves when it is attached. */
export const attachLines = async (dataplane: Dataplane, processId: string, options: LinesOptions): Promise<Lines> => {
  refuseUnknown('processes.attach', options, LINES)
  const lines = new Lines(dataplane, processId, options)
  await lines.attached.promise
  return lines
}
