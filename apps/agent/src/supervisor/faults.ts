import { BoxofficeError, type ErrorCode } from '@boxoffice/protocol'
import { z } from 'zod'

/** The supervisor's `error` (WIRE.md): a kind, the symbolic errno, and a message that names nothing of the host. */
export const Fault = z.object({ kind: z.string().max(64), errno: z.string().max(32).nullish(), message: z.string().max(4096) })
export type Fault = z.infer<typeof Fault>

const PROCESS_CODES: Readonly<Record<string, ErrorCode>> = {
  not_found: 'EXEC_NOT_FOUND',
  conflict: 'EXEC_CONFLICT',
  not_running: 'PROCESS_NOT_RUNNING',
  bad_request: 'INVALID_REQUEST',
  gone: 'TIMEOUT',
  busy: 'RATE_LIMITED',
}

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

/** Errno values that no kind covers but that are the caller's doing. */
const FILE_ERRNOS: Readonly<Record<string, ErrorCode>> = {
  ELOOP: 'INVALID_PATH',
  ENAMETOOLONG: 'INVALID_PATH',
  EINVAL: 'INVALID_PATH',
  EDQUOT: 'QUOTA_EXCEEDED',
  EFBIG: 'QUOTA_EXCEEDED',
  EBUSY: 'PERMISSION_DENIED',
}

const FILE_MESSAGES: Partial<Record<ErrorCode, string>> = {
  FILE_NOT_FOUND: 'does not exist',
  FILE_EXISTS: 'exists already; pass overwrite=true to replace it',
  PERMISSION_DENIED: 'is not accessible to the user of the sandbox',
  READ_ONLY: 'is on a read-only file system',
  IS_DIRECTORY: 'is a directory',
  NOT_A_DIRECTORY: 'is not a directory, or one of its parents is not',
  NOT_A_FILE: 'is not a regular file',
  DIRECTORY_NOT_EMPTY: 'is a directory that is not empty; pass recursive=true to delete it with its contents',
  QUOTA_EXCEEDED: 'does not fit: no space is left in the sandbox',
  PRECONDITION_FAILED: 'has changed: its ETag is another one',
}

export const parseFault = (payload: unknown): Fault => {
  const parsed = Fault.safeParse(payload)
  return parsed.success ? parsed.data : { kind: 'other', errno: null, message: 'the supervisor gave an error without a reason' }
}

/** An error of a process operation. */
export const processError = (fault: Fault): BoxofficeError => {
  const code = PROCESS_CODES[fault.kind]
  return code === undefined
    ? new BoxofficeError('INTERNAL', 'The sandbox could not do this; the log has the request_id', { cause: fault })
    : new BoxofficeError(code, fault.message, code === 'RATE_LIMITED' ? { retryAfter: 1 } : {})
}

/** An error of a file operation, in terms of the path as the client gave it [1-46]. */
export const fileError = (fault: Fault, path: string): BoxofficeError => {
  const code = FILE_CODES[fault.kind] ?? FILE_ERRNOS[fault.errno ?? '']
  if (code === undefined)
    return new BoxofficeError('INTERNAL', 'The sandbox could not do this; the log has the request_id', { cause: fault })
  const why = fault.kind === 'escapes' ? 'leads outside of the workspace' : (FILE_MESSAGES[code] ?? 'is not a valid path here')
  return new BoxofficeError(code, `${JSON.stringify(path)} ${why}`)
}
