import { randomUUID } from 'node:crypto'
import { BoxofficeError, type ExecRequest, type ExecResult, type KillCause, LIMITS, TIMES } from '@boxoffice/protocol'
import { toExitFields } from '../exec/exit.ts'
import { OutputCollector } from '../exec/output.ts'
import type { OutputEncoding, OutputText } from '../exec/output-text.ts'
import { type Operation, type ProcessReader, ProcessStream } from '../exec/process-stream.ts'
import { execStart, timeoutOf } from '../exec/start.ts'
import { endedWith, KILL_GRACE_MS } from '../http/ended.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { SupervisorExit } from '../supervisor/link.ts'
import type { Ready } from '../supervisor/payloads.ts'

/** An exec's result whose large outputs are not strings yet. */
export type CapturedResult = Omit<ExecResult, 'stdout' | 'stderr'> & { stdout: string | OutputText; stderr: string | OutputText }

type CaptureOptions = {
  sandbox: Sandbox
  timeoutSeconds: number
  limit: number
  keep: 'head_tail' | 'head' | 'tail'
  encoding: OutputEncoding
  /** Called once the process is known to be there, for what does not wait for its end. */
  onReady?: () => void
  resolve: (result: CapturedResult) => void
  reject: (error: BoxofficeError) => void
}

/** Reads a process to its end and keeps what the limits allow. The process is drained, never blocked, beyond them. */
class Capture implements ProcessReader {
  readonly #options: CaptureOptions
  readonly #outputs: readonly [OutputCollector, OutputCollector]
  readonly #read: [number, number] = [0, 0]
  stream: ProcessStream | undefined

  constructor(options: CaptureOptions) {
    this.#options = options
    const collector = (): OutputCollector => new OutputCollector(options.limit, options.keep)
    this.#outputs = [collector(), collector()]
  }

  ready({ stdout, stderr }: Ready): void {
    this.#outputs[0].startAt(stdout.offset)
    this.#outputs[1].startAt(stderr.offset)
    this.#read[0] = stdout.offset
    this.#read[1] = stderr.offset
    this.#options.onReady?.()
  }

  output(stream: 1 | 2, piece: Buffer): void {
    const at = stream === 1 ? 0 : 1
    this.#outputs[at].push(piece)
    this.#read[at] += piece.length
    this.stream?.acknowledge(stream, this.#read[at])
  }

  exit(exit: SupervisorExit): void {
    const result = this.#result(exit)
    const ended = endedWith(exit.cause)
    if (ended === undefined) this.#options.resolve(result)
    else
      this.#options.reject(
        new BoxofficeError('SESSION_EXPIRED', 'The session ended while this ran', { details: { reason: ended, result } }),
      )
  }

  failed(error: BoxofficeError): void {
    this.#options.reject(error)
  }

  #result(exit: SupervisorExit): CapturedResult {
    const { sandbox, encoding, timeoutSeconds } = this.#options
    const [stdout, stderr] = [this.#outputs[0].finish(encoding), this.#outputs[1].finish(encoding)]
    return {
      exec_id: exit.id,
      stdout: stdout.data,
      stderr: exit.spawn_error === null ? stderr.data : spawnMessage(exit.spawn_error.message, encoding),
      ...toExitFields(exit),
      stdout_truncated: stdout.truncated,
      stderr_truncated: stderr.truncated,
      lossy: stdout.lossy || stderr.lossy,
      timeout_seconds: timeoutSeconds,
      metadata: { session_id: sandbox.sessionId, sandbox_id: sandbox.id },
    }
  }
}

/** Nothing ran, so the message is all there is on stderr [C-33]. */
const spawnMessage = (message: string, encoding: OutputEncoding): string =>
  encoding === 'base64' ? Buffer.from(`${message}\n`).toString('base64') : `${message}\n`

export type Run = {
  execId: string
  /** Resolves with the result; rejects with SESSION_EXPIRED (and the partial result), SANDBOX_LOST and so on. */
  result: Promise<CapturedResult>
  /** For `detach`: resolves when the process is there; true when it has ended already. */
  started: Promise<boolean>
  /** The client has gone. */
  leave(): void
  /** TERM, grace, KILL to all of it; the result then comes as of any other end. */
  kill(cause: KillCause): void
}

/** `POST /exec` without its HTTP: starts or joins the exec and collects its output. `admit` may refuse what is right in itself. */
export const runExec = async (
  sandbox: Sandbox,
  request: ExecRequest,
  { signal, admit }: { signal: AbortSignal; admit: () => void },
): Promise<Run> => {
  const id = request.exec_id ?? randomUUID()
  const stdin = stdinOf(request)
  const timeoutSeconds = timeoutOf(request, sandbox, TIMES.defaultExecTimeout)
  const start = execStart(sandbox, {
    id,
    fields: request,
    timeoutSeconds,
    stdinIdentity: stdin === undefined ? '' : stdin.toString('base64'),
    stdin: stdin === undefined ? 'closed' : 'open',
    graceSeconds: request.exec_id === undefined ? 0 : TIMES.execDisconnectGrace,
    quiet: request.detach !== true,
  })
  admit()
  return capture(sandbox, { type: 'start', payload: start }, { request, timeoutSeconds, stdin, signal })
}

/** Joins a process that exists, for its result. */
export const readExec = (sandbox: Sandbox, id: string, timeoutSeconds: number, signal: AbortSignal): Promise<Run> =>
  capture(sandbox, { type: 'attach', payload: { id, stdout: 0, stderr: 0 } }, { request: {}, timeoutSeconds, stdin: undefined, signal })

type CaptureInput = {
  request: Pick<ExecRequest, 'max_output_bytes' | 'output_keep' | 'encoding'>
  timeoutSeconds: number
  stdin: Buffer | undefined
  signal: AbortSignal
}

const capture = async (sandbox: Sandbox, operation: Operation, { request, timeoutSeconds, stdin, signal }: CaptureInput): Promise<Run> => {
  const result = Promise.withResolvers<CapturedResult>()
  const started = Promise.withResolvers<boolean>()
  // Whoever wants only one of the two must not be told of the other's failure as an unhandled one.
  result.promise.catch(() => {})
  started.promise.catch(() => {})
  const reader = new Capture({
    sandbox,
    timeoutSeconds,
    limit: request.max_output_bytes ?? LIMITS.defaultOutputBytes,
    keep: request.output_keep ?? 'head_tail',
    encoding: request.encoding ?? 'utf8',
    onReady: () => started.resolve(false),
    resolve: (value) => {
      started.resolve(true)
      result.resolve(value)
    },
    reject: (error) => {
      started.reject(error)
      result.reject(error)
    },
  })
  const stream = new ProcessStream(sandbox, operation, reader)
  reader.stream = stream
  await stream.open('exec', signal)
  if (stdin !== undefined) {
    stream.write(stdin)
    stream.writeEnd()
  }
  // One that has ended meanwhile needs no killing; one that cannot be reached ends with its sandbox.
  const kill = (cause: KillCause): void => void stream.kill(cause, KILL_GRACE_MS).catch(() => {})
  return { execId: operation.payload.id, result: result.promise, started: started.promise, leave: () => stream.leave(), kill }
}

const stdinOf = ({ stdin, stdin_base64: encoded }: ExecRequest): Buffer | undefined => {
  if (stdin !== undefined && encoded !== undefined)
    throw new BoxofficeError('INVALID_REQUEST', 'stdin, stdin_base64: give at most one of them')
  if (stdin !== undefined) return Buffer.from(stdin)
  return encoded === undefined ? undefined : Buffer.from(encoded, 'base64')
}
