import {
  BoxofficeError,
  describeIssues,
  ExecId,
  type ExecuteServerFrame,
  type ExitFrame,
  executeError,
  fromUnknown,
} from '@boxoffice/protocol'
import type { RawData, WebSocket } from 'ws'
import { z } from 'zod'
import type { SessionDataplane } from '../../dataplane/client.ts'
import type { ProcessSocket } from '../../dataplane/process-socket.ts'
import type { Log } from '../../host/log.ts'
import { Utf8Chunks } from '../facade/utf8-chunks.ts'
import { commandFields, runFields, type WithBoxEnvironment } from './command-request.ts'
import type { Unattended } from './unattended.ts'

export type CommandSocketOptions = {
  ws: WebSocket
  dataplane: SessionDataplane
  sessionId: string
  withBoxEnvironment: WithBoxEnvironment
  unattended: Unattended
  log: Log
}

const seconds = z.number().nullish()
const offset = z.number().int().nonnegative().nullish()
const ClientFrame = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('execute'),
    command: z.string(),
    command_id: ExecId.nullish(),
    timeout_seconds: z.number().nonnegative().nullish(),
    ...runFields,
    close_stdin: z.boolean().nullish(),
    kill_on_disconnect: z.boolean().nullish(),
    idle_timeout_seconds: seconds,
    ttl_seconds: seconds,
    pty: z.boolean().nullish(),
  }),
  z.object({ type: z.literal('reconnect'), command_id: ExecId, stdout_offset: offset, stderr_offset: offset }),
  z.object({ type: z.literal('input'), data: z.string() }),
  z.object({ type: z.literal('close_stdin') }),
  z.object({ type: z.literal('kill') }),
])
type ClientFrame = z.infer<typeof ClientFrame>
type Begin = Extract<ClientFrame, { type: 'execute' | 'reconnect' }>

/** A client that says nothing is not waited for. */
const FIRST_FRAME_MS = 30_000
const HIGH_WATER_BYTES = 1024 * 1024
const DEFAULT_IDLE_SECONDS = 300
const CLOSE = { done: 1000, unsupported: 1003, policy: 1008 }

/** One command over a socket of a LangSmith client; what it is attached to is a process socket of ours, which outlives agents and tokens. */
export class CommandSocket {
  readonly #options: CommandSocketOptions
  readonly #texts = { stdout: new Utf8Chunks(), stderr: new Utf8Chunks() }
  readonly #ends = { stdout: 0, stderr: 0 }
  readonly #early: NodeJS.Timeout
  #begun: Begin | undefined
  #process: ProcessSocket | undefined
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
      else if (this.#process !== undefined) this.#control(this.#process, frame)
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
      const process = await dataplane.openProcess(
        { kind: 'exec', frame: await startOf(frame, withBoxEnvironment) },
        {
          ready: ({ exec_id: id = '', pid }) => {
            unattended.attended(sessionId, id)
            if (!this.#started) this.#send({ type: 'started', command_id: id, pid })
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
      )
      // It has ended already, or the client was refused meanwhile.
      if (this.#over) return this.#ended ? process.leave() : this.#leave(process)
      this.#process = process
      if (ws.readyState !== ws.OPEN) return this.#onClientLeft()
      ws.resume()
      for (const waiting of this.#waiting.splice(0)) this.#control(process, waiting)
      if (frame.type === 'execute' && frame.close_stdin === true) process.endInput()
    } catch (thrown) {
      this.#fail(thrown)
    }
  }

  #control(process: ProcessSocket, frame: ClientFrame): void {
    if (frame.type === 'input') {
      if (!process.write(Buffer.from(frame.data))) this.#options.ws.pause()
    } else if (frame.type === 'close_stdin') process.endInput()
    else if (frame.type === 'kill') process.signal('KILL')
  }

  #onOutput(stream: 'stdout' | 'stderr', bytes: Buffer, at: number): void {
    this.#ends[stream] = at + bytes.length
    const chunk = this.#texts[stream].push(bytes, at)
    if (chunk !== undefined) this.#send({ type: stream, ...chunk })
  }

  #onExit(exit: ExitFrame): void {
    this.#ended = true
    for (const stream of ['stdout', 'stderr'] as const) {
      const rest = this.#texts[stream].end(this.#ends[stream])
      if (rest !== undefined) this.#send({ type: stream, ...rest })
    }
    if (exit.timed_out) this.#send(executeError({ code: 'TIMEOUT', message: 'the command was ended by its timeout' }))
    else if (exit.spawn_error !== null) this.#send({ type: 'error', error_type: 'CommandError', error: exit.spawn_error.message })
    else this.#send({ type: 'exit', exit_code: exit.exit_code ?? 255 })
    this.#finish()
  }

  #fail(thrown: unknown): void {
    if (this.#over) return
    const error = fromUnknown(thrown)
    if (error.code === 'INTERNAL') this.#options.log.error({ err: thrown }, 'a command of a LangSmith client failed')
    this.#send(executeError(error))
    if (this.#process !== undefined) this.#leave(this.#process)
    this.#finish()
  }

  /** Nothing more is said to the client. */
  #finish(): void {
    this.#over = true
    clearTimeout(this.#early)
    this.#process?.leave()
    const { ws } = this.#options
    // A paused one does not hear the answer to its close.
    ws.resume()
    ws.close(CLOSE.done)
  }

  #onClientLeft(): void {
    clearTimeout(this.#early)
    const process = this.#process
    if (this.#over || process === undefined) return
    this.#over = true
    this.#leave(process)
  }

  /** The command goes on for the client that comes again, or ends with it. */
  #leave(process: ProcessSocket): void {
    const { dataplane, sessionId, unattended } = this.#options
    const begun = this.#begun
    if (begun?.type === 'execute' && begun.kill_on_disconnect === true) {
      process.signal('KILL')
      return process.leave()
    }
    process.leave()
    const idle = (begun?.type === 'execute' ? begun.idle_timeout_seconds : undefined) ?? DEFAULT_IDLE_SECONDS
    // -1: it may go on for as long as it runs.
    if (idle >= 0) unattended.left(sessionId, process.id, dataplane, idle)
  }

  #send(frame: ExecuteServerFrame): void {
    const { ws } = this.#options
    if (this.#over || ws.readyState !== ws.OPEN) return
    ws.send(JSON.stringify(frame), () => {
      if (ws.bufferedAmount < HIGH_WATER_BYTES / 2) this.#process?.resume()
    })
    if (ws.bufferedAmount > HIGH_WATER_BYTES) this.#process?.pause()
  }
}

function readFrame(text: string): ClientFrame {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new BoxofficeError('INVALID_REQUEST', 'a frame must be valid JSON')
  }
  const parsed = ClientFrame.safeParse(value)
  if (!parsed.success) throw new BoxofficeError('INVALID_REQUEST', `frame: ${describeIssues(parsed.error)}`)
  if (parsed.data.type === 'execute' && parsed.data.pty === true)
    throw new BoxofficeError('UNSUPPORTED', 'pty is not supported on this socket; open shell/ws of the session')
  return parsed.data
}

/** The `start` of a process socket (contract 3.3). A command goes on without its client unless it is to end with it. */
async function startOf(frame: Begin, withBoxEnvironment: WithBoxEnvironment): Promise<Record<string, unknown>> {
  if (frame.type === 'reconnect')
    return { attach: frame.command_id, stdout_offset: frame.stdout_offset ?? 0, stderr_offset: frame.stderr_offset ?? 0 }
  return {
    command: frame.command,
    ...(await commandFields(frame, withBoxEnvironment)),
    ...(frame.command_id == null ? {} : { exec_id: frame.command_id }),
    ...(frame.timeout_seconds == null ? {} : { timeout_seconds: frame.timeout_seconds }),
    detach: frame.kill_on_disconnect !== true,
    stdin: 'open',
  }
}
