import { BoxofficeError, type ErrorCode, LIMITS, WATCH_LIMITS } from '@boxoffice/protocol'
import { z } from 'zod'

/** The supervisor's `error` (WIRE.md): a kind, the symbolic errno, and a message for the log: it may name what only the sandbox knows. */
export const Fault = z.object({ kind: z.string().max(64), errno: z.string().max(32).nullish(), message: z.string().max(4096) })
export type Fault = z.infer<typeof Fault>

export const parseFault = (payload: unknown): Fault => {
  const parsed = Fault.safeParse(payload)
  return parsed.success ? parsed.data : { kind: 'other', errno: null, message: 'the supervisor gave an error without a reason' }
}

const unexpected = (fault: Fault): BoxofficeError =>
  new BoxofficeError('INTERNAL', 'The sandbox could not do this; the log has the request_id', { cause: fault })

/** What was asked of a process. `reading`: its output was being read already. */
export type ProcessSubject = { op: string; id: string; reading?: boolean }

/** An error of a process operation, in terms of the id as the client gave it. */
export const processError = (fault: Fault, { op, id, reading = false }: ProcessSubject): BoxofficeError => {
  const name = JSON.stringify(id)
  switch (fault.kind) {
    case 'not_found':
      return new BoxofficeError(
        'EXEC_NOT_FOUND',
        `There is no exec or shell ${name} in this sandbox; GET /execs lists those that run or ended lately`,
      )
    case 'conflict':
      return new BoxofficeError(
        'EXEC_CONFLICT',
        `The id ${name} belongs to another command; attach to it, repeat exactly that command, or choose another id`,
      )
    case 'not_running':
      return new BoxofficeError('PROCESS_NOT_RUNNING', `${name} has ended and takes no ${op}; GET /execs/${id} tells how`)
    case 'gone':
      if (!reading) return new BoxofficeError('SANDBOX_STARTING', 'The sandbox is stopping; try again', { retryAfter: 1 })
      return new BoxofficeError(
        'TIMEOUT',
        `This reader of ${name} fell behind the last ${LIMITS.ringBytes} bytes, which are all that is kept; attach again at the offset that it has`,
      )
    case 'busy':
      return new BoxofficeError('RATE_LIMITED', 'The sandbox has too much to do; try again', { retryAfter: 1 })
    case 'bad_request':
      return new BoxofficeError('INVALID_REQUEST', badRequest(op, name), { cause: fault })
    default:
      return unexpected(fault)
  }
}

/** What the agent has let through is refused for one reason only, where it has offsets. */
const badRequest = (op: string, name: string): string => {
  if (op === 'output' || op === 'wait')
    return `offset: beyond what ${name} has written; X-Stream-Next-Offset of an earlier answer says where it ends`
  if (op === 'start' || op === 'attach')
    return `stdout_offset, stderr_offset: beyond what ${name} has written; "end" attaches to what comes from now on`
  if (op === 'resize') return `resize: ${name} has no terminal; only shells have one`
  return `${op}: the sandbox cannot do this with ${name}`
}

/** An error of a connection to a port of the sandbox. */
export const tunnelError = (fault: Fault, port: number): BoxofficeError => {
  switch (fault.kind) {
    case 'refused':
      return portNotListening(port)
    case 'timed_out':
      return new BoxofficeError('TIMEOUT', `Port ${port} has not taken the connection in time; the program that listens there is busy`)
    case 'busy':
      return new BoxofficeError('RATE_LIMITED', 'The sandbox has too many connections to its ports; close one', { retryAfter: 1 })
    case 'reset':
      return new BoxofficeError('CONNECTION_RESET', `The program behind port ${port} broke the connection off`)
    case 'gone':
      return new BoxofficeError('SANDBOX_STARTING', 'The sandbox is stopping; try again', { retryAfter: 1 })
    default:
      return unexpected(fault)
  }
}

/** With the ports where somebody does listen, as far as that is known. */
export const portNotListening = (port: number, listening?: readonly number[]): BoxofficeError =>
  new BoxofficeError(
    'PORT_NOT_LISTENING',
    `Nobody listens on port ${port} of the sandbox; start the program, on 127.0.0.1 or on every address`,
    { details: { port, ...(listening !== undefined && { listening: [...listening] }) } },
  )

/** What was asked of a file: paths as the client gave them [1-46]. `to` is the target of a move. */
export type FileSubject = { op: string; given: string; to?: string | undefined }

const FILE_CODES: Readonly<Record<string, ErrorCode>> = {
  not_found: 'FILE_NOT_FOUND',
  exists: 'FILE_EXISTS',
  escapes: 'INVALID_PATH',
  bad_request: 'INVALID_PATH',
  permission_denied: 'PERMISSION_DENIED',
  read_only: 'READ_ONLY',
  is_directory: 'IS_DIRECTORY',
  not_a_directory: 'NOT_A_DIRECTORY',
  not_a_file: 'NOT_A_FILE',
  not_empty: 'DIRECTORY_NOT_EMPTY',
  no_space: 'QUOTA_EXCEEDED',
  changed: 'PRECONDITION_FAILED',
  busy: 'RATE_LIMITED',
}

/** Errno values that mean something else than their kind, or that have none but are the caller's doing. */
const FILE_ERRNOS: Readonly<Record<string, ErrorCode>> = {
  ELOOP: 'INVALID_PATH',
  EXDEV: 'INVALID_PATH',
  EBUSY: 'PERMISSION_DENIED',
  ETXTBSY: 'PERMISSION_DENIED',
}

/** Of the two paths of a move, the one that such an error is about. */
const OF_THE_TARGET: readonly ErrorCode[] = ['FILE_EXISTS', 'DIRECTORY_NOT_EMPTY', 'IS_DIRECTORY', 'NOT_A_DIRECTORY', 'QUOTA_EXCEEDED']

/** An error of a file operation. */
export const fileError = (fault: Fault, subject: FileSubject): BoxofficeError => {
  const code = FILE_ERRNOS[fault.errno ?? ''] ?? FILE_CODES[fault.kind]
  if (code === undefined) return unexpected(fault)
  const { given, to } = subject
  const both = to === undefined ? JSON.stringify(given) : `${JSON.stringify(given)} or ${JSON.stringify(to)}`
  const name =
    to !== undefined && OF_THE_TARGET.includes(code) ? JSON.stringify(to) : code === 'FILE_NOT_FOUND' ? JSON.stringify(given) : both
  return new BoxofficeError(code, `${name} ${describe(code, fault, subject)}`, code === 'RATE_LIMITED' ? { retryAfter: 1 } : {})
}

const TOO_MANY_WATCHES =
  `is not watched: a sandbox has at most ${WATCH_LIMITS.watches} watches and ${WATCH_LIMITS.directories} watched directories; ` +
  'close a watch, or watch fewer directories'

const describe = (code: ErrorCode, { kind, errno }: Fault, { op }: FileSubject): string => {
  switch (code) {
    case 'FILE_NOT_FOUND':
      return op === 'mkdir' ? 'cannot be made: its parent does not exist; pass parents=true' : 'does not exist'
    case 'FILE_EXISTS':
      if (op === 'mkdir')
        return 'exists already and is not made anew; with parents=true a directory that is there is fine, a file has to be removed first'
      if (op === 'symlink') return 'exists already; remove it first'
      return 'exists already; pass overwrite=true to replace it'
    case 'PERMISSION_DENIED':
      if (errno === 'EBUSY' || errno === 'ETXTBSY') return 'is in use, as a mount or a running program; choose another path'
      return 'is not accessible to the user of the sandbox; choose another path, or change its mode there'
    case 'READ_ONLY':
      return 'is on a read-only file system; choose a path below /workspace or /tmp'
    case 'IS_DIRECTORY':
      if (op === 'read') return 'is a directory; pass archive=tar to get what is in it'
      return 'is a directory; give the path of a file in it, or remove it first'
    case 'NOT_A_DIRECTORY':
      if (op === 'list') return 'is not a directory, or one of its parents is not; GET /files/stat tells about a single file'
      return 'is not a directory, or one of its parents is not; choose another path, or remove that file first'
    case 'NOT_A_FILE':
      return 'is a fifo, a device or a socket; only regular files are read and written here'
    case 'DIRECTORY_NOT_EMPTY':
      if (op === 'remove') return 'is a directory that is not empty; pass recursive=true to delete it with its contents'
      return 'is a directory that is not empty; remove it first'
    case 'QUOTA_EXCEEDED':
      return 'does not fit: no space is left in the sandbox; delete something first'
    case 'PRECONDITION_FAILED':
      return 'has changed: its ETag is another one; read it again'
    case 'RATE_LIMITED':
      if (op === 'watch') return TOO_MANY_WATCHES
      return 'was not touched: too many file operations at once; try again'
    default:
      if (kind === 'escapes') return 'leads outside of the workspace by a link; give a path that stays in it'
      if (errno === 'ELOOP') return 'goes through too many links; give the path that they lead to'
      if (errno === 'EXDEV') return 'is on another file system than the other; copy it instead, with mv in an exec'
      if (errno === 'ENAMETOOLONG') return 'has a part that is too long; at most 255 bytes between two slashes'
      return op === 'move' ? 'cannot be moved there; a directory cannot go into itself' : 'is not a valid path here; choose another one'
  }
}
