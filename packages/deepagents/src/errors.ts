import { SandboxError } from 'deepagents'

/** Codes of this package; others are those of the SDK, as `SESSION_RELEASED` or `CONNECTION_FAILED`. */
export type BoxofficeErrorCode =
  | 'ALREADY_INITIALIZED' // initialize() of a sandbox that runs
  | 'NOT_INITIALIZED' // used before initialize(), or after close()
  | 'THREAD_REQUIRED' // forThreads() was used outside of a run that has a thread id
  | 'FILE_OPERATION_FAILED' // one of initialFiles could not be written
  | 'INVALID_REQUEST' // an option that cannot be
  | 'BOOTSTRAP_REFUSED' // `configurable.sandbox` is not of this thread, or points to a host that is not expected

/** What this backend throws. `code` is stable; `cause` is the SDK's error, where there is one. */
export class BoxofficeError extends SandboxError {
  // The base class declares it as its own name, and as an instance property.
  override readonly name: string = 'BoxofficeError'

  constructor(message: string, code: BoxofficeErrorCode | (string & {}), cause?: Error) {
    super(message, code, cause)
    // The base class makes every instance one of its own prototype.
    Object.setPrototypeOf(this, new.target.prototype)
  }
}

/** The same failure as an error of this package. An abort stays what it is. */
export const toBoxofficeError = (error: unknown): unknown => {
  if (error instanceof BoxofficeError || !(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') return error
  return new BoxofficeError(error.message, error.code, error)
}
