import { randomUUID } from 'node:crypto'
import { BoxofficeError, type StartExecFrame, type StartShellFrame, TIMES } from '@boxoffice/protocol'
import { parseMeta } from '../exec/meta.ts'
import type { Operation } from '../exec/process-stream.ts'
import { execStart, shellStart, timeoutOf } from '../exec/start.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import { ProcessRecord } from '../supervisor/payloads.ts'
import type { AttachMode } from './attachments.ts'
import { parseExecStart, parseShellStart, type SocketKind } from './frames.ts'

/** What a `start` frame asks for, ready to be sent to the supervisor. */
export type Beginning = {
  operation: Operation
  mode: AttachMode
  detach: boolean
  ack: boolean
  encoding: 'utf8' | 'base64'
  /** The offsets asked for; what `ready` says beyond them is a gap. */
  asked: { stdout: number | 'end'; stderr: number | 'end' }
  /** The size that the client wants, for a terminal. */
  size: { cols: number; rows: number } | undefined
}

const DEFAULT_SIZE = { cols: 80, rows: 24 }

export const beginning = (kind: SocketKind, frame: Record<string, unknown>, sandbox: Sandbox): Beginning | Promise<Beginning> =>
  kind === 'exec' ? beginExec(parseExecStart(frame), sandbox) : beginShell(parseShellStart(frame), sandbox)

const beginExec = (frame: StartExecFrame, sandbox: Sandbox): Beginning | Promise<Beginning> => {
  const asked = { stdout: frame.stdout_offset ?? 0, stderr: frame.stderr_offset ?? 0 }
  const common = {
    mode: frame.mode ?? 'takeover',
    ack: frame.ack ?? false,
    encoding: frame.encoding ?? 'utf8',
    asked,
    size: undefined,
  } as const
  if (frame.attach !== undefined) return attachment('exec', frame.attach, sandbox, common)
  const stdin = frame.stdin ?? 'open'
  const payload = execStart(sandbox, {
    id: frame.exec_id ?? randomUUID(),
    fields: frame,
    timeoutSeconds: timeoutOf(frame, sandbox, undefined),
    stdinIdentity: stdin === 'open' ? 'open' : '',
    stdin,
    graceSeconds: TIMES.execDisconnectGrace,
    ...asked,
    quiet: false,
  })
  return { ...common, operation: { type: 'start', payload }, detach: payload.detach }
}

const beginShell = (frame: StartShellFrame, sandbox: Sandbox): Beginning | Promise<Beginning> => {
  const asked = { stdout: frame.stdout_offset ?? 0, stderr: 0 }
  const wanted =
    frame.cols === undefined && frame.rows === undefined
      ? undefined
      : { cols: frame.cols ?? DEFAULT_SIZE.cols, rows: frame.rows ?? DEFAULT_SIZE.rows }
  const common = { mode: frame.mode ?? 'mirror', ack: frame.ack ?? false, encoding: frame.encoding ?? 'utf8', asked, size: wanted } as const
  if (frame.attach !== undefined) return attachment('shell', frame.attach, sandbox, common)
  const payload = shellStart(sandbox, {
    id: frame.shell_id ?? randomUUID(),
    fields: frame,
    term: frame.term ?? 'xterm-256color',
    ...(wanted ?? DEFAULT_SIZE),
    stdout: asked.stdout,
  })
  return { ...common, operation: { type: 'start', payload }, detach: payload.detach }
}

/** Attaching says nothing about the kind of process, so it is looked up: `exec` must not reach a shell, nor the reverse [4-105]. */
const attachment = async (
  kind: SocketKind,
  id: string,
  sandbox: Sandbox,
  common: Pick<Beginning, 'mode' | 'ack' | 'encoding' | 'asked' | 'size'>,
): Promise<Beginning> => {
  const record = ProcessRecord.parse(await sandbox.link.call('get', { id, meta: true }))
  if (parseMeta(record.meta).kind !== kind) throw new BoxofficeError('EXEC_NOT_FOUND', `There is no ${kind} ${id} here`)
  return { ...common, operation: { type: 'attach', payload: { id, ...common.asked } }, detach: record.detach }
}
