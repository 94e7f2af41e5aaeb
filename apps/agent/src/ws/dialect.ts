import {
  BoxofficeError,
  describeIssues,
  ExecuteClientFrame,
  type ExecuteServerFrame,
  executeError,
  type ServerFrame,
} from '@boxoffice/protocol'
import { type ClientFrame, parseFrame, parseObject } from './frames.ts'

/** How the frames of a socket are written: what a client says is read as one of ours, what we say is written as the client's. */
export type Dialect = {
  /** Throws INVALID_REQUEST. */
  read(text: string): ClientFrame | { type: 'unknown'; name: string }
  /** Undefined: the client knows nothing like it. */
  write(frame: ServerFrame): object | undefined
}

/** That of `exec/ws` and `shell/ws`. */
export const OWN_DIALECT: Dialect = { read: parseFrame, write: (frame) => frame }

/** That of `execute/ws` (contract 7.4). */
export const EXECUTE_DIALECT: Dialect = {
  read(text) {
    const value = parseObject(text)
    const parsed = ExecuteClientFrame.safeParse(value)
    if (parsed.success) return ownFrame(parsed.data)
    const { type } = value
    const known = ExecuteClientFrame.options.some(({ shape }) => shape.type.value === type)
    if (!known && typeof type === 'string') return { type: 'unknown', name: type.slice(0, 64) }
    throw new BoxofficeError('INVALID_REQUEST', `${known ? type : 'frame'}: ${describeIssues(parsed.error)}`)
  },
  write: executeFrame,
}

function ownFrame(frame: ExecuteClientFrame): ClientFrame {
  switch (frame.type) {
    case 'execute':
      return { type: 'start', ...startFields(frame) }
    case 'reconnect':
      return {
        type: 'start',
        attach: frame.command_id,
        stdout_offset: frame.stdout_offset ?? 0,
        stderr_offset: frame.stderr_offset ?? 0,
      }
    case 'input':
      return { type: 'stdin', data: frame.data }
    case 'close_stdin':
      return { type: 'stdin', eof: true }
    case 'kill':
      return { type: 'signal', signal: 'KILL' }
  }
}

/** `/bin/bash`, which these clients always name, is what a command gets where it is there. */
const DEFAULT_SHELL = '/bin/bash'

function startFields(frame: ExecuteClientFrame & { type: 'execute' }): Record<string, unknown> {
  if (frame.pty !== undefined && frame.pty !== null && frame.pty !== false)
    throw new BoxofficeError('UNSUPPORTED', 'execute: pty is not served here; open shell/ws')
  const timeout = frame.timeout_seconds ?? frame.timeout
  return {
    command: frame.command,
    detach: frame.kill_on_disconnect !== true,
    stdin: frame.close_stdin === true ? 'closed' : 'open',
    ...(frame.shell == null || frame.shell === DEFAULT_SHELL ? {} : { shell: frame.shell }),
    ...(timeout == null ? {} : { timeout_seconds: timeout }),
    ...(frame.cwd == null ? {} : { cwd: frame.cwd }),
    ...(frame.env == null ? {} : { env: frame.env }),
    ...(frame.command_id == null ? {} : { exec_id: frame.command_id }),
  }
}

function executeFrame(frame: ServerFrame): ExecuteServerFrame | undefined {
  switch (frame.type) {
    case 'ready':
      return { type: 'started', command_id: frame.exec_id ?? '', pid: frame.pid }
    case 'stdout':
    case 'stderr':
      return { type: frame.type, data: frame.data, offset: frame.offset }
    case 'exit':
      if (frame.timed_out) return executeError({ code: 'TIMEOUT', message: 'the command was ended by its timeout' })
      return { type: 'exit', exit_code: frame.exit_code ?? 255 }
    case 'error':
      return executeError(frame.error as Parameters<typeof executeError>[0])
    default:
      return undefined
  }
}
