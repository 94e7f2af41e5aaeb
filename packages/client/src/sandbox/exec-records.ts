import {
  ExecSummary,
  type ExecSummary as ExecSummaryWire,
  ListExecsResponse,
  type Signal,
  ExecResult as WireExecResult,
} from '@boxoffice/protocol'
import { z } from 'zod'
import { isCode } from '../base/errors.ts'
import { type ExecResult, toExecResult } from '../base/exec-result.ts'
import { type OptionNames, refuseUnknown } from '../base/known-options.ts'
import { query } from '../base/query.ts'
import { anySignal } from '../base/signals.ts'
import type { Dataplane } from '../dataplane/dataplane.ts'
import { retrying } from '../network/backoff.ts'
import { type HttpRequest, readBytes, readJson } from '../network/http.ts'

/** What the sandbox knows of a command or a shell: of one that runs, or ended less than 10 minutes ago (contract 3.2). */
export type ExecInfo = {
  execId: string
  state: 'running' | 'exited'
  kind: 'exec' | 'shell'
  /** Its first 400 characters. */
  command: string
  startedAt: Date
  endedAt: Date | null
  /** Null while it runs, and where nobody saw the end. */
  exitCode: number | null
  reason: ExecSummaryWire['reason']
  /** How many clients read it now. */
  attached: number
}

/** One command; `result` is there once it has ended. */
export type ExecRecord = ExecInfo & { result: ExecResult | undefined }

/** A piece of one stream of a command. */
export type ExecOutput = {
  bytes: Uint8Array<ArrayBuffer>
  /** The first byte of `bytes` in its stream; larger than the one that was asked for where older bytes are no longer kept. */
  offset: number
  /** What to ask for next. */
  nextOffset: number
  /** The first byte that is still kept. */
  oldestOffset: number
  /** The stream has ended, and `bytes` has its last one. */
  ended: boolean
}

type Common = { signal?: AbortSignal | undefined }

export type ListExecsOptions = Common & {
  /** Default `all`. */
  state?: 'running' | 'exited' | 'all' | undefined
}

export type ExecOutputOptions = Common & {
  /** Default `stdout`. */
  stream?: 'stdout' | 'stderr' | undefined
  /** The first byte that is wanted. Default 0. */
  offset?: number | undefined
  /** The most bytes that are given at once. Default 1 MiB. */
  limit?: number | undefined
  /** How long to wait for a byte at `offset`, in seconds up to 30. Default 0: what is there now. */
  waitSeconds?: number | undefined
}

export type KillOptions = Common & {
  /** Seconds between TERM and KILL. Default 1; with 0 it is KILL at once. At most 60. */
  graceSeconds?: number | undefined
}

const COMMON: OptionNames<Common> = { signal: true }
const LIST: OptionNames<ListExecsOptions> = { ...COMMON, state: true }
const OUTPUT: OptionNames<ExecOutputOptions> = { ...COMMON, stream: true, offset: true, limit: true, waitSeconds: true }
const KILL: OptionNames<KillOptions> = { ...COMMON, graceSeconds: true }

/** The commands and shells of a sandbox, by their ids: those that run, and those that ended less than 10 minutes ago. */
export interface ExecRecords {
  list(options?: ListExecsOptions): Promise<ExecInfo[]>
  /** One of them, with its result if it has ended. Rejects with `EXEC_NOT_FOUND` for an id that is not known, or no longer. */
  get(execId: string, options?: Common): Promise<ExecRecord>
  /** What it has written, without joining it. Bytes that are no longer kept are left out, which `offset` shows. */
  output(execId: string, options?: ExecOutputOptions): Promise<ExecOutput>
  /** Sends a signal to its process group. False: it had ended before. */
  signal(execId: string, signal: Signal | `SIG${Signal}`, options?: Common): Promise<boolean>
  /** Ends it with TERM, and with KILL what is left after `graceSeconds`. Does not wait for its end. False: it had ended before. */
  kill(execId: string, options?: KillOptions): Promise<boolean>
}

export const createExecRecords = (dataplane: Dataplane): ExecRecords => {
  const repeat = (path: string, request: HttpRequest): Promise<Response> =>
    retrying(() => dataplane.request(path, request), {
      windowMs: dataplane.reconnectWindowMs,
      signal: anySignal(request.signal, dataplane.signal),
    })

  const sendSignal = async (execId: string, json: object, signal: AbortSignal | undefined): Promise<boolean> => {
    let unanswered = false
    const attempt = async (): Promise<boolean> => {
      try {
        await (await dataplane.request(`/execs/${encodeURIComponent(execId)}/signal`, { method: 'POST', json, signal })).body?.cancel()
        return true
      } catch (error) {
        // After a lost answer it may have ended by the first request.
        if (isCode(error, 'PROCESS_NOT_RUNNING')) return unanswered
        unanswered ||= isCode(error, 'CONNECTION_FAILED')
        throw error
      }
    }
    return await retrying(attempt, { windowMs: dataplane.reconnectWindowMs, signal: anySignal(signal, dataplane.signal) })
  }

  return {
    async list(options: ListExecsOptions = {}) {
      refuseUnknown('exec.list', options, LIST)
      const { state, signal } = options
      const response = await repeat(`/execs${query({ state })}`, { signal })
      return (await readJson(response, ListExecsResponse, signal)).execs.map(toInfo)
    },
    async get(execId: string, options: Common = {}) {
      refuseUnknown('exec.get', options, COMMON)
      const { signal } = options
      const wire = await readJson(await repeat(`/execs/${encodeURIComponent(execId)}`, { signal }), AnyRecord, signal)
      const result = WireExecResult.safeParse(wire).data
      return { ...toInfo(wire), result: result && toExecResult(result) }
    },
    async output(execId: string, options: ExecOutputOptions = {}) {
      refuseUnknown('exec.output', options, OUTPUT)
      const { stream, offset, limit, waitSeconds: wait, signal } = options
      const target = `/execs/${encodeURIComponent(execId)}/output${query({ stream, offset, limit, wait })}`
      return await retrying(async () => toOutput(await dataplane.request(target, { signal }), signal), {
        windowMs: dataplane.reconnectWindowMs,
        signal: anySignal(signal, dataplane.signal),
      })
    },
    async signal(execId: string, name: Signal | `SIG${Signal}`, options: Common = {}) {
      refuseUnknown('exec.signal', options, COMMON)
      return await sendSignal(execId, { signal: name }, options.signal)
    },
    async kill(execId: string, options: KillOptions = {}) {
      refuseUnknown('exec.kill', options, KILL)
      const { graceSeconds = 1, signal } = options
      return await sendSignal(
        execId,
        graceSeconds === 0 ? { signal: 'KILL' } : { signal: 'TERM', kill_after_seconds: graceSeconds },
        signal,
      )
    },
  }
}

/** With the fields of a result beside it, once it has ended. */
const AnyRecord = z.looseObject(ExecSummary.shape)

const toInfo = (wire: ExecSummaryWire): ExecInfo => ({
  execId: wire.exec_id,
  state: wire.state,
  kind: wire.kind,
  command: wire.command,
  startedAt: new Date(wire.started_at),
  endedAt: wire.ended_at === null ? null : new Date(wire.ended_at),
  exitCode: wire.exit_code,
  reason: wire.reason,
  attached: wire.attached,
})

const toOutput = async (response: Response, signal: AbortSignal | undefined): Promise<ExecOutput> => {
  const number = (name: string): number => Number(response.headers.get(name) ?? 0)
  const bytes = await readBytes(response, signal)
  return {
    bytes,
    offset: number('x-stream-offset'),
    nextOffset: number('x-stream-next-offset'),
    oldestOffset: number('x-stream-oldest-offset'),
    ended: response.headers.get('x-stream-eof') === 'true',
  }
}
