import { MvpNegotiateResponse } from '@boxoffice/protocol'
import { BoxofficeError, isCode } from './base/errors.ts'

export type BootstrapRules = {
  threadId: string
  brokerUrl: string
  /** Host names (`host` or `host:port`) that a pre-negotiated session may point to, beside the broker's own; `*` for any. */
  allowHosts: readonly string[]
  /** Unix ms. */
  now: number
}

/**
 * True when the broker cannot answer at all, so that pre-negotiated coordinates may stand in: nobody answers, the route is
 * unknown, or it is not implemented. A refusal is an answer [4-171].
 *
 * | failure                                              | bootstrap |
 * | ---------------------------------------------------- | --------- |
 * | no connection                                        | used      |
 * | 404 `NOT_FOUND` (no such route), 404 of another server | used    |
 * | 501                                                  | used      |
 * | 401, 403, 404 `SESSION_NOT_FOUND`, 409, 410, 423, 429, 5xx | not used |
 */
export const isBrokerUnavailable = (error: unknown): boolean => {
  if (!(error instanceof BoxofficeError)) return false
  if (isCode(error, 'CONNECTION_FAILED') || error.status === 501) return true
  return error.status === 404 && (error.code === 'NOT_FOUND' || error.code === 'INVALID_RESPONSE')
}

/**
 * Checks `config.configurable.sandbox` [4-170]. It is the client's own convenience, never a proof to anybody: it must be
 * for this thread, in date, and point to a host that is expected here [C-60].
 */
export const acceptBootstrap = (value: unknown, { threadId, brokerUrl, allowHosts, now }: BootstrapRules): MvpNegotiateResponse => {
  const parsed = MvpNegotiateResponse.safeParse(value)
  if (!parsed.success) {
    const issue = parsed.error.issues[0]
    throw refusal(`${issue?.path.join('.') || 'bootstrap'}: ${issue?.message ?? 'not a negotiated session'}`)
  }
  const session = parsed.data
  if (session.thread_id !== threadId) throw refusal(`thread_id: the bootstrap is for another thread than ${JSON.stringify(threadId)}`)
  if (Date.parse(session.expires_at) <= now) {
    throw new BoxofficeError('TOKEN_EXPIRED', `expires_at: the bootstrap ran out at ${session.expires_at}; negotiate again`, {
      status: 401,
    })
  }
  const expected = new Set([new URL(brokerUrl).host, ...allowHosts])
  for (const field of ['http_base_url', 'ws_base_url'] as const) {
    const url = URL.canParse(session.sandbox[field]) ? new URL(session.sandbox[field]) : undefined
    if (url === undefined || !PROTOCOLS[field].includes(url.protocol)) throw refusal(`sandbox.${field}: not a URL of this kind`)
    if (expected.has('*') || expected.has(url.host) || expected.has(url.hostname)) continue
    throw refusal(`sandbox.${field}: host ${url.host} is not expected here; add it to allowHosts if it is yours`)
  }
  return session
}

const PROTOCOLS = { http_base_url: ['http:', 'https:'], ws_base_url: ['ws:', 'wss:'] }

const refusal = (message: string): BoxofficeError => new BoxofficeError('BOOTSTRAP_REFUSED', message)
