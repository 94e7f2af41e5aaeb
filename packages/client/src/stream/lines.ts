import { CLOSE, LineLedger, LinesServerFrame, SUBPROTOCOL_BEARER_PREFIX, SUBPROTOCOL_LINES } from '@boxoffice/protocol'
import type { Dataplane } from '../dataplane.ts'
import { BoxofficeError, errorFromWire, GapError, isCode } from '../errors.ts'
import { anySignal, sleep } from '../signals.ts'
import { afterDrop, type Drop, leadsNowhere } from './reconnect.ts'
import { openSocket, type Socket } from './socket.ts'

export type LinesOptions = {
  /** Sends the client away that is attached now. Default: that is a conflict. */
  takeover?: boolean | undefined
  /** Leaves the process. */
  signal?: AbortSignal | undefined
}

const CONFIRM_EVERY_MS = 1_000
const PROBE_EVERY_MS = 15_000
const SILENT_FOR_MS = 45_000
const READY_WITHIN_MS = 30_000
/** A writer waits while so much is not known to have reached the process. */
const MAX_UNCONFIRMED_BYTES = 1024 * 1024
/** Lines that wait for the reader; beyond, the server is told no more of what has come, and so stops. */
const MAX_WAITING_BYTES = 256 * 1024

type Frame = LinesServerFrame
type Ready = Extract<Frame, { type: 'ready' }>

/**
 * One client's hold on a managed process's stdin and stdout, as lines, over as many connections as it takes: no line twice, none
 * left out. Iterating ends with the process; after an error that coming back cannot mend it throws.
 */
export class Lines implements AsyncIterable<string> {
  readonly processId: string
  readonly #dataplane: Dataplane
  readonly #ledger = new LineLedger()
  readonly #life = new AbortController()
  /** Resolves at the first `ready`. */
  readonly attached = Promise.withResolvers<void>()
  #socket: Socket | undefined
  #run: string | undefined
  #takeover: boolean
  #waiting: (string | GapError)[] = []
  #taken = 0
  #waitingBytes = 0
  #reportLater = false
  #wake = Promise.withResolvers<void>()
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
    while (this.#ended === undefined && this.#ledger.unconfirmedBytes > MAX_UNCONFIRMED_BYTES) await this.#wake.promise
    if (this.#ended !== undefined) throw this.#ended.error ?? new BoxofficeError('STDIN_CLOSED', `the process ${this.processId} has ended`)
    this.#ledger.sent(line)
    this.#socket?.send(line)
    if (this.#ledger.unconfirmedBytes > MAX_UNCONFIRMED_BYTES / 4) this.#ping()
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
    while (this.#ended === undefined) {
      const { ways, token, reconnectWindowMs: windowMs } = this.#dataplane
      const way = ways.current
      try {
        const used = await token.current()
        const { drop, wasReady } = await this.#connect(`${way.wsBaseUrl}/processes/${encodeURIComponent(this.processId)}/ws`, used)
        if (this.#ended !== undefined) return
        if (wasReady) {
          ways.worked(way)
          this.#takeover = true
          attempt = 0
          failingSince = performance.now()
          renewed = false
        }
        if (drop.code === CLOSE.done) return this.#end()
        // A browser does not tell why an upgrade was refused; the same question over HTTP does.
        if (drop.unopened) await this.#whyRefused()
        if (leadsNowhere(way, drop) && (await ways.failed(way, drop.unopened === true))) continue
        const next = afterDrop(drop, { attempt, failingForMs: performance.now() - failingSince, windowMs, renewed })
        if (next.type === 'fail') return this.#end(next.error)
        if (next.type === 'renew') {
          renewed = true
          await token.renew(used)
        } else {
          attempt++
          await sleep(next.delayMs, this.#life.signal)
        }
      } catch (error) {
        return this.#end(error)
      }
    }
  }

  /** Throws what cannot be mended: no such process, one that has ended, or somebody else's. */
  async #whyRefused(): Promise<void> {
    try {
      const response = await this.#dataplane.request(`/processes/${encodeURIComponent(this.processId)}`, { signal: this.#life.signal })
      const { status, attached } = (await response.json()) as { status?: string; attached?: boolean }
      if (status !== 'running') {
        if (this.#run !== undefined) return this.#end()
        throw new BoxofficeError('PROCESS_NOT_RUNNING', `the process ${this.processId} has ended`, { status: 409 })
      }
      if (attached && !this.#takeover)
        throw new BoxofficeError('ALREADY_ATTACHED', `the process ${this.processId} has another client; take over to replace it`, {
          status: 409,
        })
    } catch (error) {
      if (!isCode(error, 'CONNECTION_FAILED') && !isCode(error, 'BACKEND_UNAVAILABLE') && !isCode(error, 'SANDBOX_STARTING')) throw error
    }
  }

  #connect(base: string, token: string): Promise<{ drop: Drop; wasReady: boolean }> {
    const search = new URLSearchParams({ takeover: String(this.#takeover) })
    if (this.#run !== undefined) {
      search.set('run', this.#run)
      search.set('stdout_offset', String(this.#ledger.received))
    }
    const url = `${base}?${search}`
    return new Promise((resolve) => {
      let opened = false
      let wasReady = false
      let error: BoxofficeError | undefined
      let heardAt = performance.now()
      const late = setTimeout(() => socket.drop(), READY_WITHIN_MS)
      const confirm = setInterval(() => this.#ledger.unconfirmedBytes > 0 && this.#ping(), CONFIRM_EVERY_MS)
      const probe = setInterval(() => {
        if (performance.now() - heardAt > SILENT_FOR_MS) socket.drop()
        else this.#ping()
      }, PROBE_EVERY_MS)
      let renewal: ReturnType<typeof setTimeout> | undefined
      const renewLater = (): void => {
        renewal = setTimeout(() => {
          this.#dataplane.token.current().then(
            (fresh) => {
              control(socket, { type: 'auth', token: fresh })
              renewLater()
            },
            () => {},
          )
        }, this.#dataplane.token.renewInMs() + 100)
      }
      const socket = openSocket(this.#dataplane.WebSocket, url, [SUBPROTOCOL_LINES, SUBPROTOCOL_BEARER_PREFIX + token], {
        open() {
          opened = true
        },
        text: (line) => {
          heardAt = performance.now()
          this.#onLine(line)
        },
        bytes: (message) => {
          heardAt = performance.now()
          const frame = parse(message)
          if (frame?.type === 'ready') {
            wasReady = true
            clearTimeout(late)
            this.#onReady(socket, frame)
            renewLater()
          } else if (frame?.type === 'pong') this.#confirmed(frame.stdin_offset)
          else if (frame?.type === 'error') error = errorFromWire(frame.error)
        },
        closed: (code, reason) => {
          for (const timer of [late, confirm, probe, renewal]) clearTimeout(timer)
          if (this.#socket === socket) this.#socket = undefined
          resolve({ drop: { code, reason, error, url: base, unopened: !opened }, wasReady })
        },
      })
      this.#life.signal.addEventListener('abort', () => socket.close(CLOSE.done), { once: true })
    })
  }

  #onReady(socket: Socket, { run, stdout, stdin }: Ready): void {
    this.#socket = socket
    if (this.#run === undefined) this.#ledger.begin(stdout.offset, stdin.offset)
    else for (const bytes of this.#ledger.resume(stdout.offset, stdin.offset)) control(socket, { type: 'stdin', data: toBase64(bytes) })
    if (stdout.gap !== undefined) this.#deliver(new GapError('stdout', stdout.gap.from, stdout.gap.to))
    this.#run = run
    this.attached.resolve()
  }

  #onLine(line: string): void {
    if (this.#ended !== undefined) return
    const due = this.#ledger.got(line)
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
    this.#ledger.confirmed(offset)
    this.#signal()
  }

  #ping(): void {
    if (this.#socket !== undefined) control(this.#socket, { type: 'ping', stdout_offset: this.#reportLater ? 0 : this.#ledger.received })
  }

  #deliver(next: string | GapError): void {
    this.#waiting.push(next)
    this.#signal()
  }

  #signal(): void {
    this.#wake.resolve()
    this.#wake = Promise.withResolvers()
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
  const lines = new Lines(dataplane, processId, options)
  await lines.attached.promise
  return lines
}

const encoder = new TextEncoder()
const decoder = new TextDecoder()

const control = (socket: Socket, frame: object): void => socket.send(encoder.encode(JSON.stringify(frame)))

const parse = (message: Uint8Array): Frame | undefined => LinesServerFrame.safeParse(JSON.parse(decoder.decode(message))).data

const toBase64 = (bytes: Uint8Array): string => {
  let binary = ''
  for (let at = 0; at < bytes.length; at += 0x8000) binary += String.fromCharCode(...bytes.subarray(at, at + 0x8000))
  return btoa(binary)
}
