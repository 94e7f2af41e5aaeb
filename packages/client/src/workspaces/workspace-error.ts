import { ERRORS, type ErrorCode } from '@boxoffice/protocol'
import { BoxofficeError } from '../base/errors.ts'

/** The codes and statuses are those of the file routes, so that callers of either handle errors alike. */
export const workspaceError = (code: ErrorCode, message: string, cause?: unknown): BoxofficeError =>
  new BoxofficeError(code, message, { status: ERRORS[code].status, cause })

/** What the supervisor said of a file operation that failed (WIRE.md). */
export class FileFault extends Error {
  override readonly name = 'FileFault'
  readonly kind: string
  readonly errno: string | null

  constructor(kind: string, errno: string | null, message: string) {
    super(message)
    this.kind = kind
    this.errno = errno
  }
}

const SAYS: Readonly<Record<string, (path: string) => readonly [ErrorCode, string]>> = {
  not_found: (path) => ['FILE_NOT_FOUND', `File '${path}' does not exist`],
  exists: (path) => ['FILE_EXISTS', `File '${path}' already exists; pass overwrite=true to replace it`],
  escapes: (path) => ['INVALID_PATH', `Path '${path}' escapes session workspace`],
  bad_request: (path) => ['INVALID_PATH', `Path '${path}' is not valid here`],
  permission_denied: (path) => ['PERMISSION_DENIED', `Path '${path}' is not accessible to this user`],
  read_only: (path) => ['READ_ONLY', `Path '${path}' is on a read-only file system`],
  is_directory: (path) => ['IS_DIRECTORY', `Path '${path}' is a directory`],
  not_a_directory: (path) => ['NOT_A_DIRECTORY', `Path '${path}' or one of its parents is not a directory`],
  not_a_file: (path) => ['NOT_A_FILE', `Path '${path}' is a fifo, a device or a socket`],
  not_empty: (path) => ['DIRECTORY_NOT_EMPTY', `Cannot delete directory '${path}' without recursive=True`],
  no_space: (path) => ['QUOTA_EXCEEDED', `File '${path}' does not fit: no space is left`],
}

/** In the caller's own words: the path as it was given, never where that is on the host [1-46]. */
export const errorOfFault = (fault: unknown, path: string): unknown => {
  if (!(fault instanceof FileFault)) return fault
  if (fault.errno === 'ELOOP') return workspaceError('INVALID_PATH', `Path '${path}' goes through too many links`, fault)
  const says = SAYS[fault.kind]
  if (says === undefined) return workspaceError('INTERNAL', `Path '${path}': ${fault.errno ?? fault.kind}`, fault)
  return workspaceError(...says(path), fault)
}
