import { BoxofficeError, type ExecuteServerFrame, type ExitFrame, executeError, fromUnknown } from '@boxoffice/protocol'
import type { RawData, WebSocket } from 'ws'
import type { SessionDataplane } from '../../../dataplane/client.ts'
import type { ProcessSocket } from '../../../dataplane/process-socket.ts'
import type { Log } from '../../../host/log.ts'
import { Utf8Chunks } from '../../facade/utf8-chunks.ts'
import { type Begin, type ClientFrame, readFrame } from './client-frame.ts'
import type { WithBoxEnvironment } from './command-request.ts'
import { type OpenedCommand, openCommand } from './open-command.ts'
import { MAX_TIMER_SECONDS } from './session-timers.ts'
import type { Unattended } from './unattended.ts'

export type CommandSocketOptions = {
  ws: WebSocket
  dataplane: SessionDataplane
  sessionId: string
  withBoxEnvironment: WithBoxEnvironment
  unattended: Unattended
  log: Log
}

/** A client that says nothing is not waited for. */
const FIRST_FRAME_MS = 30_000
const HIGH_WATER_BYTES = 1024 * 1024
const DEFAULT_IDLE_SECONDS = 300
/** How long a sandbox keeps what an ended process has said; no client can ask for another time. */
const KEPT_SECONDS = 600
const CLOSE = { done: 1000, unsupported: 1003, policy: 1008 }

/** One command over a socket of a LangSmith client; what it is attached to is a process socket of ours, which outlives agents and tokens. */
export class CommandSocket {
  readonly #options: CommandSocketOptions
  readonly #texts = { stdout: new Utf8Chunks(), stderr: new Utf8Chunks() }
  readonly #ends = { stdout: 0, stderr: 0 }
  readonly #early: NodeJS.Timeout
  #begun: Begin | undefined
  #opened: OpenedCommand | undefined
  /** The time limit of a command at a terminal: an agent limits the time of commands only. */
  #limit: { timer: NodeJS.Timeout; until: number } | undefined
  #timedOut = false
  /** What the client has said before the process was there. */
  #waiting: ClientFrame[] = []
  #started = false
  #over = false
  #ended = false

  constructor(options: CommandSocketOptions) {
    this.#options = options
    const { ws } = options
    this.#early = setTimeout(() => ws.close(CLOSE.policy, 'no command was sent'), FIRST_FRAME_MS)
    ws.on('message', (data, isBinary) => this.#onMessage(data, isBinary))
    ws.on('close', () => this.#onClientLeft())
  }

  #onMessage(data: RawData, isBinary: boolean): void {
    const { ws } = this.#options
    if (isBinary) return ws.close(CLOSE.unsupported, 'text messages only')
    if (this.#over) return
    try {
      const frame = readFrame(String(data))
      if (frame.type === 'execute' || frame.type === 'reconnect') void this.#begin(frame)
      else if (this.#opened !== undefined) this.#control(this.#opened, frame)
      else if (this.#begun === undefined) throw new BoxofficeError('INVALID_REQUEST', 'a socket begins with execute or reconnect')
      else {
        this.#waiting.push(frame)
        ws.pause()
      }
    } catch (thrown) {
      this.#fail(thrown)
    }
  }

  async #begin(frame: Begin): Promise<void> {
    const { ws, dataplane, sessionId, unattended, withBoxEnvironment } = this.#options
    if (this.#begun !== undefined) return this.#fail(new BoxofficeError('INVALID_REQUEST', 'a socket carries one command'))
    clearTimeout(this.#early)
    this.#begun = frame
    try {
      const opened = await openCommand(
        frame,
        {
          ready: ({ exec_id, shell_id, pid }) => {
            const id = exec_id ?? shell_id ?? ''
            if (frame.type === 'execute' && !this.#started) unattended.begun(sessionId, id)
            else unattended.attended(sessionId, id)
            const kept = frame.type === 'execute' && frame.ttl_seconds != null ? { ttl_seconds: KEPT_SECONDS } : {}
            if (!this.#started) this.#send({ type: 'started', command_id: id, pid, ...kept })
            this.#started = true
          },
          output: (stream, bytes, at) => this.#onOutput(stream, bytes, at),
          exit: (exit) => this.#onExit(exit),
          drain: () => ws.resume(),
          closed: (error) => {
            if (error !== undefined) this.#fail(error)
            else if (!this.#over) this.#finish()
          },
        },
        { dataplane, withBoxEnvironment },
      )
      const { process, kind } = opened
      if (kind === 'shell' && frame.type === 'execute' && !this.#ended) this.#endLater(process, frame.timeout_seconds)
      // It has ended already, or the client was refused meanwhile.
      if (this.#over) return this.#ended ? process.leave() : this.#leave(process)
      this.#opened = opened
      for (const waiting of this.#waiting.splice(0)) this.#control(opened, waiting)
      if (frame.type === 'execute' && frame.close_stdin === true) this.#control(opened, { type: 'close_stdin' })
      // A client may leave with its last word.
      if (ws.readyState !== ws.OPEN) return this.#onClientLeft()
      ws.resume()
    } catch (thrown) {
      this.#fail(thrown)
    }
  }

  #control({ process, kind }: OpenedCommand, frame: ClientFrame): void {
    if (frame.type === 'input') {
      if (!process.write(Buffer.from(frame.data))) this.#options.ws.pause()
    } else if (frame.type === 'close_stdin') {
      // A terminal has one line for both directions: its client ends its input by a character.
      if (kind === 'exec') process.endInput()
    } else if (frame.type === 'kill') process.signal('KILL')
  }

  #endLater(process: ProcessSocket, seconds: number | null | undefined): void {
    if (!seconds) return
    const end = (): void => {
      this.#timedOut = true
      process.signal('KILL')
    }
    const ms = Math.min(seconds, MAX_TIMER_SECONDS) * 1000
    this.#limit = { timer: setTimeout(end, ms).unref(), until: performance.now() + ms }
  }

  #onOutput(stream: 'stdout' | 'stderr', bytes: Buffer, at: number): void {
    this.#ends[stream] = at + bytes.length
    const chunk = this.#texts[stream].push(bytes, at)
    if (chunk !== undefined) this.#send({ type: stream, ...chunk })
  }

  #onExit(exit: ExitFrame): void {
    this.#ended = true
    clearTimeout(this.#limit?.timer)
    for (const stream of ['stdout', 'stderr'] as const) {
      const rest = this.#texts[stream].end(this.#ends[stream])
      if (rest !== undefined) this.#send({ type: stream, ...rest })
    }
    if (exit.timed_out || this.#timedOut) this.#send(executeError({ code: 'TIMEOUT', message: 'the command was ended by its timeout' }))
    else if (exit.spawn_error !== null) this.#send({ type: 'error', error_type: 'CommandError', error: exit.spawn_error.message })
    else this.#send({ type: 'exit', exit_code: exit.exit_code ?? 255 })
    this.#finish()
  }

  #fail(thrown: unknown): void {
    if (this.#over) return
    const error = fromUnknown(thrown)
    if (error.code === 'INTERNAL') this.#options.log.error({ err: thrown }, 'a command of a LangSmith client failed')
    this.#send(executeError(error))
    if (this.#opened !== undefined) this.#leave(this.#opened.process)
    this.#finish()
  }

  /** Nothing more is said to the client. */
  #finish(): void {
    this.#over = true
    clearTimeout(this.#early)
    this.#opened?.process.leave()
    const { ws } = this.#options
    // A paused one does not hear the answer to its close.
    ws.resume()
    ws.close(CLOSE.done)
  }

  #onClientLeft(): void {
    clearTimeout(this.#early)
    const process = this.#opened?.process
    if (this.#over || process === undefined) return
    this.#over = true
    this.#leave(process)
  }

  /** The command goes on for the client that comes again, or ends with it. */
  #leave(process: ProcessSocket): void {
    const { dataplane, sessionId, unattended } = this.#options
    const begun = this.#begun
    clearTimeout(this.#limit?.timer)
    if (begun?.type === 'execute' && begun.kill_on_disconnect === true) {
      process.signal('KILL')
      return process.leave()
    }
    process.leave()
    const idle = (begun?.type === 'execute' ? begun.idle_timeout_seconds : undefined) ?? DEFAULT_IDLE_SECONDS
    const command = { sessionId, commandId: process.id, dataplane }
    if (this.#limit !== undefined) unattended.limit(command, Math.max(0, this.#limit.until - performance.now()) / 1000)
    // -1: it may go on for as long as it runs.
    if (idle >= 0) unattended.left(command, idle)
  }

  #send(frame: ExecuteServerFrame): void {
    const { ws } = this.#options
    if (this.#over || ws.readyState !== ws.OPEN) return
    ws.send(JSON.stringify(frame), () => {
      if (ws.bufferedAmount < HIGH_WATER_BYTES / 2) this.#opened?.process.resume()
    })
    if (ws.bufferedAmount > HIGH_WATER_BYTES) this.#opened?.process.pause()
  }
}
