import { BoxofficeError } from '@boxoffice/protocol'

/** 503 for what is new while the disk is full: nothing of the request has been done. */
export const diskFull = (cause?: unknown): BoxofficeError =>
  new BoxofficeError('BACKEND_UNAVAILABLE', "the disk of the broker's data directory is full; ask again when there is space", {
    retryAfter: 5,
    details: { reason: 'disk_full' },
    cause,
  })

const diskError = (cause: unknown): BoxofficeError =>
  new BoxofficeError('BACKEND_UNAVAILABLE', 'the broker could not write to its data directory; its log says why', {
    retryAfter: 5,
    details: { reason: 'disk_error' },
    cause,
  })

/** Of the database (`SQLITE_…`) and of the system (`E…`). */
const codeOf = (thrown: unknown): string => String((thrown as { code?: unknown } | null)?.code ?? '')

/** No space for a write. The index of SQLite's WAL, which is mapped, fails with a code of its own. */
const FULL: readonly string[] = ['SQLITE_FULL', 'SQLITE_IOERR_SHMSIZE', 'ENOSPC', 'EDQUOT']
const FAILED = /^(SQLITE_(IOERR|READONLY|CANTOPEN).*|EIO|EROFS)$/

export const isDiskFull = (thrown: unknown): boolean => FULL.includes(codeOf(thrown))

/** What the caller is told of a write that failed: the disk's fault as 503, anything else as it is. */
export function writeRefusal(thrown: unknown): unknown {
  if (isDiskFull(thrown)) return diskFull(thrown)
  return FAILED.test(codeOf(thrown)) ? diskError(thrown) : thrown
}
