import { withTimeout } from '@boxoffice/kit/with-timeout'
import { BoxofficeError } from '@boxoffice/protocol'
import type { Logger } from 'pino'

type EngineError = NodeJS.ErrnoException & { statusCode?: number; json?: { message?: string } }

/** The HTTP status that the engine answered with, if it did. */
export const statusOf = (error: unknown): number | undefined => (error instanceof Error ? (error as EngineError).statusCode : undefined)

/** What the engine said, in one line, to be recognised and logged. It may name paths of this host, which are no caller's business. */
export const messageOf = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  const { json, message, syscall, code } = error as EngineError
  if (syscall !== undefined && code !== undefined) return `${syscall} ${code}`
  return (json?.message ?? message).trim().replace(/\s+/g, ' ')
}

/** The reason of an engine that is not there, or hangs. */
export const NO_ANSWER = 'it does not answer'

/** What engines say, by what it means for those who wait. The first that fits. */
const MEANINGS: readonly (readonly [said: RegExp, means: string])[] = [
  [/no space left on device|disk quota exceeded/i, 'its disk is full; make room there'],
  [
    /unknown (or invalid )?runtime|invalid runtime name|retrieve OCI runtime error/i,
    "it cannot run the profile's oci_runtime; install that there",
  ],
  [
    /manifest unknown|not found: manifest|no such image|access denied|authentication required|unauthorized/i,
    'no registry gives it the image',
  ],
  [/no such host|server misbehaving|dial tcp|i\/o timeout|TLS handshake|certificate|proxyconnect/i, 'it cannot reach the registry'],
]

/** The reason of a failure in words of our own. Whoever passes it on logs the failure itself. */
export const reasonOf = (error: unknown): string => {
  const said = messageOf(error)
  const { syscall, code } = error as EngineError
  if (said === NO_ANSWER || (syscall !== undefined && code !== undefined)) return NO_ANSWER
  return MEANINGS.find(([pattern]) => pattern.test(said))?.[1] ?? "what it said is in the agent's log"
}

export const engineFailed = (doing: string, cause: unknown, log: Logger): BoxofficeError => {
  if (cause instanceof BoxofficeError) return cause
  log.warn({ err: cause }, `the container engine could not ${doing}`)
  return new BoxofficeError('BACKEND_UNAVAILABLE', `the container engine could not ${doing}: ${reasonOf(cause)}`, { cause })
}

/** Awaits a call for which some statuses mean that there is nothing left to do. */
export const unless = async (statuses: readonly number[], call: Promise<unknown>): Promise<void> => {
  try {
    await call
  } catch (error) {
    if (!statuses.includes(statusOf(error) ?? 0)) throw error
  }
}

/** Does not wait longer than 3 s for an engine that has stopped answering. */
export const inTime = <T>(call: Promise<T>): Promise<T> =>
  withTimeout(call, 3000, () => {
    throw new Error(NO_ANSWER)
  })
