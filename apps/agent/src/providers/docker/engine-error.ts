import { BoxofficeError } from '@boxoffice/protocol'

type EngineError = NodeJS.ErrnoException & { statusCode?: number; json?: { message?: string } }

/** The HTTP status that the engine answered with, if it did. */
export const statusOf = (error: unknown): number | undefined => (error instanceof Error ? (error as EngineError).statusCode : undefined)

/** What the engine said, in one line. Where it sits on this host is nobody's business: callers read this. */
export const messageOf = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  const { json, message, syscall, code } = error as EngineError
  if (syscall !== undefined && code !== undefined) return `${syscall} ${code}`
  return (json?.message ?? message).trim().replace(/\s+/g, ' ')
}

export const engineFailed = (doing: string, cause: unknown): BoxofficeError =>
  cause instanceof BoxofficeError
    ? cause
    : new BoxofficeError('BACKEND_UNAVAILABLE', `the container engine could not ${doing}: ${messageOf(cause)}`, { cause })

/** Awaits a call for which some statuses mean that there is nothing left to do. */
export const unless = async (statuses: readonly number[], call: Promise<unknown>): Promise<void> => {
  try {
    await call
  } catch (error) {
    if (!statuses.includes(statusOf(error) ?? 0)) throw error
  }
}

/** Does not wait longer than this for an engine that has stopped answering. */
export const within = async <T>(milliseconds: number, call: Promise<T>): Promise<T> => {
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error('no answer in time')), milliseconds)
  try {
    return await Promise.race([call, promise])
  } finally {
    clearTimeout(timer)
  }
}
