import { BoxofficeError } from '@boxoffice/protocol'
import type { Logger } from 'pino'
import { ApiError } from './api.ts'

const NOT_FOUND = 404

/** What a call answers; undefined for what is not there. */
export const unlessMissing = async <T>(call: Promise<T>): Promise<T | undefined> => {
  try {
    return await call
  } catch (error) {
    if (error instanceof ApiError && error.status === NOT_FOUND) return undefined
    throw error
  }
}

export const isConflict = (error: unknown): boolean => error instanceof ApiError && error.reason === 'AlreadyExists'

/** What the API server said, in words of our own; it may name paths and addresses of the cluster, so the log alone has all of it. */
export const reasonOf = (error: unknown): string => {
  if (!(error instanceof ApiError)) return 'it does not answer'
  const { status, message, fields } = error
  if (status === 401) return 'it does not take the token of the agent'
  if (status === 403 && /exceeded quota/.test(message)) return 'the quota of the namespace is used up'
  if (status === 403) return 'it forbids that to the agent; give its service account the role, or look at the admission policies'
  if (status === NOT_FOUND) return 'there is no such namespace'
  if (status === 400 || status === 422) return `it does not take the pod${fields.length > 0 ? ` (${fields.join(', ')})` : ''}`
  return `it answered with ${status}`
}

export const callFailed = (doing: string, cause: unknown, log: Logger): BoxofficeError => {
  if (cause instanceof BoxofficeError) return cause
  log.warn({ err: cause }, `the Kubernetes API could not ${doing}`)
  const message = `the Kubernetes API could not ${doing}: ${reasonOf(cause)}`
  const isFull = cause instanceof ApiError && cause.status === 403 && /exceeded quota/.test(cause.message)
  return isFull
    ? new BoxofficeError('AGENT_FULL', message, { retryAfter: 5, cause })
    : new BoxofficeError('BACKEND_UNAVAILABLE', message, { cause })
}

export const sandboxGone = (): BoxofficeError => new BoxofficeError('SANDBOX_LOST', 'the sandbox is not there any more')
