import { ExecResult as WireExecResult } from '@boxoffice/protocol'
import { z } from 'zod'
import { toBase64 } from '../base/base64.ts'
import { isBrowser } from '../base/browser.ts'
import { BoxofficeError, ExecError, isCode, SilenceError } from '../base/errors.ts'
import { type ExecResult, toExecResult } from '../base/exec-result.ts'
import { type OptionNames, refuseUnknown } from '../base/known-options.ts'
import { anySignal } from '../base/signals.ts'
import type { Dataplane } from '../dataplane/dataplane.ts'
import { endRemotely } from '../dataplane/end-remotely.ts'
import { ALSO_BUSY, retrying } from '../network/backoff.ts'
import { isDeadEnd } from '../network/endpoints.ts'
import { readJson } from '../network/http.ts'
import { Liveness, type Sign, type Watch } from '../network/liveness.ts'
import { Attachment, type Target } from '../stream/attachment.ts'
import { CALLBACKS, COMMAND, type Command, type CommandOptions, commandFields, EXEC, type ExecOptions, newExecId } from './command.ts'
import type { OutputCallbacks } from './deliver.ts'
import { createExecRecords, type ExecRecords } from './exec-records.ts'
import { Run, type RunPosition } from './run.ts'
import { streamedExec } from './streamed-exec.ts'

export type StartOptions = CommandOptions &
  OutputCallbacks & {
    stdin?: 'open' | 'closed' | undefined
    /** Lets the command go on without a client. */
    detach?: boolean | undefined
  }

export type AttachOptions = OutputCallbacks & {
  /** The first byte wanted; `end` for what comes from now on. Default 0. */
  stdoutOffset?: number | 'end' | undefined
  stderrOffset?: number | 'end' | undefined
  /** `takeover` (default): others are sent away. `mirror`: with them. `viewer`: reads only. */
  mode?: 'takeover' | 'mirror' | 'viewer' | undefined
  signal?: AbortSignal | undefined
}

const START: OptionNames<StartOptions> = { ...COMMAND, ...CALLBACKS, stdin: true, detach: true }
/** Where a client left a run is given as it was told, with the id. */
const ATTACH: OptionNames<AttachOptions & RunPosition> = {
  ...{ execId: true, stdoutOffset: true, stderrOffset: true, mode: true, signal: true },
  ...CALLBACKS,
}

/** `session.exec(command)`, and what else there is of commands. */
export interface Exec extends ExecRecords {
  /**
   * Runs a command to its end. Repeated over dropped connections without running twice; where as many commands run as may, it
   * waits up to `reconnectWindowMs` for its turn. With `onStdout` or `onStderr` the output is streamed, the process waits for the
   * callbacks, and what one throws ends the command and rejects.
   */
  (command: Command, options?: ExecOptions): Promise<ExecResult>
  /** The same; rejects with `ExecError` (which has the result's fields) unless it exits with 0. */
  orThrow(command: Command, options?: ExecOptions): Promise<ExecResult>
  /** Starts a command and streams it. Resolves when it runs, or could not be spawned (`exit` then tells). */
  start(command: Command, options?: StartOptions): Promise<Run>
  /** Joins a command that runs, or ended less than 10 minutes ago. */
  attach(execId: string, options?: AttachOptions): Promise<Run>
}

export const createExec = (dataplane: Dataplane): Exec => {
  const exec = async (command: Command, options: ExecOptions = {}): Promise<ExecResult> => {
    refuseUnknown('exec', options, EXEC)
    // Browsers have six connections to a host: requests that wait for six commands would leave none. Sockets do not count there.
    const streamed = options.onStdout !== undefined || options.onStderr !== undefined || isBrowser()
    if (streamed) return await streamedExec(dataplane, command, options)
    const { signal } = options
    const execId = options.execId ?? newExecId()
    const json = {
      ...commandFields(command, options, execId),
      ...stdinFields(options.stdin),
      max_output_bytes: options.maxOutputBytes,
      output_keep: options.outputKeep,
    }
    const sendMs = (options.stdin?.length ?? 0) / SLOWEST_BYTES_PER_MS
    let began = 0
    const liveness = new Liveness(
      (signal) => signOf(dataplane, execId, { signal, isSending: performance.now() - began < sendMs }),
      dataplane.requestTimeoutMs,
    )
    const attempt = ({ signal, heard }: Watch): Promise<ExecResult> => {
      began = performance.now()
      return dataplane.request('/exec', { method: 'POST', json, signal, unwatched: true }).then(async (response) => {
        heard()
        return toExecResult(await readJson(response, WireExecResult, signal, heard))
      })
    }
    const watched = async (): Promise<ExecResult> => {
      const endpoint = dataplane.endpoints.current
      try {
        return await liveness.watch(attempt, signal)
      } catch (error) {
        if (error instanceof SilenceError && !error.final) await dataplane.endpoints.failed(endpoint, error.certain)
        throw error
      }
    }
    try {
      return await retrying(watched, {
        windowMs: dataplane.reconnectWindowMs,
        after: ALSO_BUSY,
        signal: anySignal(signal, dataplane.signal),
      })
    } catch (error) {
      if (signal?.aborted && !dataplane.signal?.aborted) endRemotely(dataplane, execId)
      throw options.stdin === undefined ? error : orTooLarge(error)
    }
  }

  return Object.assign(exec, createExecRecords(dataplane), {
    async orThrow(command: Command, options?: ExecOptions) {
      const result = await exec(command, options)
      if (result.exitCode !== 0) throw new ExecError(typeof command === 'string' ? command : command.join(' '), result)
      return result
    },
    async start(command: Command, options: StartOptions = {}) {
      refuseUnknown('exec.start', options, START)
      const id = options.execId ?? newExecId()
      const start = { ...commandFields(command, options, id), stdin: options.stdin, detach: options.detach }
      return await open(dataplane, { route: '/exec/ws', id, start, reattach: { mode: 'takeover' } }, options)
    },
    async attach(execId: string, options: AttachOptions = {}) {
      refuseUnknown('exec.attach', options, ATTACH)
      const { stdoutOffset, stderrOffset, mode } = options
      const start = { attach: execId, mode }
      const from = { stdout: stdoutOffset, stderr: stderrOffset }
      return await open(dataplane, { route: '/exec/ws', id: execId, start, reattach: { mode }, from }, options)
    },
  })
}

/** 64 KiB/s: so slowly may input go before its command is taken for lost. */
const SLOWEST_BYTES_PER_MS = 65

const open = async (
  dataplane: Dataplane,
  target: Target,
  options: OutputCallbacks & { signal?: AbortSignal | undefined },
): Promise<Run> => {
  const attachment = new Attachment(dataplane, target, options.signal)
  const first = await Promise.race([attachment.ready, attachment.exit])
  return new Run(attachment, 'pid' in first ? first.pid : undefined, options)
}

const stdinFields = (stdin: string | Uint8Array | undefined) => {
  if (stdin === undefined) return {}
  return typeof stdin === 'string' ? { stdin } : { stdin_base64: toBase64(stdin) }
}

const ExecState = z.object({ state: z.string() })

/** How a command is getting on, asked by another connection than the one that waits for it. */
const signOf = async (
  dataplane: Dataplane,
  execId: string,
  { signal, isSending }: { signal: AbortSignal; isSending: boolean },
): Promise<Sign> => {
  try {
    const response = await dataplane.request(`/execs/${encodeURIComponent(execId)}/state`, { signal, unwatched: true })
    const { state } = await readJson(response, ExecState, signal)
    // `missing` is one whose request has not come yet, or not whole; `exited` one whose answer is due.
    return state === 'exited' || (state === 'missing' && !isSending) ? 'answered' : 'going'
  } catch (error) {
    if (!(error instanceof BoxofficeError) || isDeadEnd(dataplane.endpoints.current, error)) throw error
    // The agent is older than this question, or is asked too much; whatever else it refuses, it refuses the command too.
    return isCode(error, 'NOT_FOUND') || isCode(error, 'RATE_LIMITED') ? 'going' : 'answered'
  }
}

/** Input that one request cannot hold goes as a stream, or by a file. */
const orTooLarge = (error: unknown): unknown =>
  isCode(error, 'PAYLOAD_TOO_LARGE')
    ? new BoxofficeError(error.code, `${error.message}; give longer input to exec.start(…).stdin, or upload it as a file`, error)
    : error
