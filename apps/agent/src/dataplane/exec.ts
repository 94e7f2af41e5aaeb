import {
  BoxofficeError,
  type DetachedExec,
  EXEC_ID_PATTERN,
  ExecRequest,
  type ExecSummary,
  LIMITS,
  SignalRequest,
} from '@boxoffice/protocol'
import { toExitFields } from '../exec/exit.ts'
import { parseMeta } from '../exec/meta.ts'
import { assertCommandSize } from '../exec/start.ts'
import { parse, readJson } from '../http/body.ts'
import type { Call } from '../http/call.ts'
import { killCause } from '../http/ended.ts'
import { largeOutputs } from '../http/responses/large-response.ts'
import { sendJson, sendNothing, sendResult } from '../http/responses/respond.ts'
import type { ResponseLease } from '../http/responses/response-budget.ts'
import { ANSWER_STALL_MS, cutStalledClient } from '../http/responses/stalled-client.ts'
import type { Route } from '../http/router.ts'
import { heldError, requireNotHeld } from '../sandbox/held.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import { OutputPage, ProcessList, ProcessRecord } from '../supervisor/payloads.ts'
import { type CapturedResult, type Run, readExec, runExec } from './run.ts'

const SIGNAL_BODY_BYTES = 4096
const MAX_WAIT_SECONDS = 30

const postExec = async (call: Call): Promise<void> => {
  const { incoming, outgoing, sandbox, signal } = call
  const body = await readJson(incoming, LIMITS.execBodyBytes)
  assertCommandSize(body)
  const request = parse(ExecRequest, body)
  await sandbox.ready(signal)
  let answer: ResponseLease | undefined
  const admit = (): void => {
    call.limits.exec(call.claims)
    if (request.detach !== true) answer = reserveResponse(call, request.max_output_bytes)
  }
  const run = await runExec(sandbox, request, { signal, admit })
  // The client's end of the connection closes before the response is out: it has gone [C-29].
  const clientAborted = (): void => run.leave()
  outgoing.on('close', clientAborted)
  if (outgoing.destroyed) clientAborted()
  let denied: BoxofficeError | undefined
  call.onSessionEnd((reason) => {
    denied ??= reason
    run.kill(killCause(reason))
  })
  if (request.detach === true) {
    const ended = await run.started
    run.leave()
    return sendJson(outgoing, 202, { exec_id: run.execId, state: ended ? 'exited' : 'running' } satisfies DetachedExec)
  }
  const result = await (sandbox.profile.workspace_quota_mb === 0 ? run.result : resultWithin(sandbox, run))
  answer?.hold(bytesOf(result))
  if (denied !== undefined) throw withResult(denied, result)
  await sendResult(outgoing, 200, result)
}

/** Its result; 507 where the workspace goes over its quota meanwhile: the command is stopped then, and nobody else would say so. */
const resultWithin = async (sandbox: Sandbox, run: Run): Promise<CapturedResult> => {
  const { promise, reject } = Promise.withResolvers<never>()
  const refuse = (): void => {
    if (sandbox.held === 'workspace_quota') reject(heldError(sandbox))
  }
  const off = sandbox.onHeld?.(refuse)
  refuse()
  try {
    return await Promise.race([run.result, promise])
  } catch (error) {
    run.leave()
    throw error
  } finally {
    off?.()
  }
}

/** Until the response is out, or its client has gone. */
const reserveResponse = ({ answers, claims, outgoing }: Call, outputBytes = 0): ResponseLease => {
  const lease = answers.reserve(claims, outputBytes)
  outgoing.on('close', lease.release)
  if (outgoing.destroyed) lease.release()
  return lease
}

const bytesOf = (result: CapturedResult): number => largeOutputs(result).reduce((sum, { bytes }) => sum + bytes, 0)

/** What the caller had when it lost its right to go on [C-28]. */
const withResult = ({ code, message, details }: BoxofficeError, result: CapturedResult): BoxofficeError =>
  code === 'UNAUTHENTICATED'
    ? new BoxofficeError('SESSION_EXPIRED', 'The session token was revoked while this ran; refresh it', {
        details: { reason: 'revoked', result },
      })
    : new BoxofficeError(code, message, { details: { ...details, result } })

const listExecs = async ({ sandbox, outgoing, query, signal }: Call): Promise<void> => {
  const state = query.choice('state', ['running', 'exited', 'all'], 'all')
  await sandbox.ready(signal)
  const { processes } = ProcessList.parse(await sandbox.link.call('list', { meta: true }))
  const execs = processes.flatMap(toSummary).filter((one) => state === 'all' || one.state === state)
  sendJson(outgoing, 200, { execs })
}

const getExec = async (call: Call): Promise<void> => {
  const { sandbox, outgoing, id, signal } = call
  await sandbox.ready(signal)
  const record = ProcessRecord.parse(await sandbox.link.call('get', { id: known(id) }))
  const [summary] = toSummary(record)
  if (record.state === 'running') return sendJson(outgoing, 200, summary)
  const answer = reserveResponse(call)
  const run = await readExec(sandbox, id, parseMeta(record.meta).timeout ?? 0, signal)
  outgoing.on('close', () => run.leave())
  const result = await run.result
  answer.hold(bytesOf(result))
  await sendResult(outgoing, 200, { ...summary, ...result })
}

const getOutput = async (call: Call): Promise<void> => {
  const { sandbox, outgoing, id, query, signal } = call
  known(id)
  const stream = query.choice('stream', ['stdout', 'stderr'], 'stdout')
  const asked = query.integer('offset', { min: 0, max: Number.MAX_SAFE_INTEGER, fallback: 0 })
  const limit = query.integer('limit', { min: 1, max: LIMITS.ringBytes, fallback: LIMITS.ringBytes })
  const wait = query.integer('wait', { min: 0, max: MAX_WAIT_SECONDS, fallback: 0 })
  await sandbox.ready(signal)
  const answer = reserveResponse(call)
  if (wait > 0) await sandbox.link.call('wait', { id, stream, offset: asked, ms: wait * 1000 })
  const page = OutputPage.parse(await sandbox.link.call('output', { id, stream, offset: asked, limit }))
  const bytes = Buffer.from(page.data, 'base64')
  answer.hold(bytes.length)
  cutStalledClient(outgoing, ANSWER_STALL_MS)
  outgoing.writeHead(200, {
    'Content-Type': 'application/octet-stream',
    'Content-Length': bytes.length,
    'X-Stream-Offset': page.offset,
    'X-Stream-Next-Offset': page.next,
    'X-Stream-Oldest-Offset': page.oldest,
    'X-Stream-Eof': String(page.eof),
    ...(page.offset > asked ? { 'X-Stream-Gap': `${asked}-${page.offset}` } : {}),
  })
  outgoing.end(bytes)
}

const postSignal = async ({ sandbox, incoming, outgoing, id, signal }: Call): Promise<void> => {
  const { signal: name, kill_after_seconds: killAfter } = parse(SignalRequest, await readJson(incoming, SIGNAL_BODY_BYTES))
  await sandbox.ready(signal)
  if (name === 'CONT') requireNotHeld(sandbox)
  const fields = { id: known(id), signal: name, ...(killAfter === undefined ? {} : { kill_after_ms: Math.round(killAfter * 1000) }) }
  await sandbox.link.call('signal', fields)
  sendNothing(outgoing, 204)
}

/** Ids of managed processes at the supervisor are none that a client can give an exec. */
const known = (id: string): string => {
  if (EXEC_ID_PATTERN.test(id)) return id
  throw new BoxofficeError(
    'EXEC_NOT_FOUND',
    `There is no exec or shell ${JSON.stringify(id)} in this sandbox; GET /execs lists those that run or ended lately`,
  )
}

/** None for a managed process, which has routes of its own. */
const toSummary = (record: ProcessRecord): ExecSummary[] => {
  const { kind, command } = parseMeta(record.meta)
  if (kind === 'process') return []
  const exit = record.exit === null || record.exit === undefined ? undefined : toExitFields(record.exit)
  return [
    {
      exec_id: record.id,
      state: record.state === 'running' ? 'running' : 'exited',
      kind,
      command,
      started_at: toTime(record.started_ms),
      ended_at: record.ended_ms === null || record.ended_ms === undefined ? null : toTime(record.ended_ms),
      exit_code: exit?.exit_code ?? null,
      reason: exit?.reason ?? null,
      attached: record.readers,
    },
  ]
}

/** The supervisor's clock is only shown; one that is out of range must not break the response. */
const toTime = (milliseconds: number): string => {
  const date = new Date(milliseconds)
  if (Number.isNaN(date.getTime())) throw new BoxofficeError('INTERNAL', 'An internal error occurred; the log has the request_id')
  return date.toISOString()
}

export const execRoutes: readonly Route[] = [
  { method: 'POST', path: 'exec', requires: 'exec', handler: postExec },
  { method: 'POST', path: 'execute', requires: 'exec', handler: postExec, alias: true },
  { method: 'GET', path: 'execs', requires: 'exec', handler: listExecs },
  { method: 'GET', path: 'execs/:id', requires: 'exec', handler: getExec },
  { method: 'GET', path: 'execs/:id/output', requires: 'exec', handler: getOutput },
  { method: 'POST', path: 'execs/:id/signal', requires: 'exec', handler: postSignal },
]
