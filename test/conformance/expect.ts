import assert from 'node:assert/strict'
import type { Reply } from './target.ts'

type Refusal = {
  error: { code: string; message: string; retryable: boolean; request_id: string; aliases?: string[]; details?: Record<string, unknown> }
  detail: string
}

/** Checks that a reply is a refusal as contract 2.6 wants them, and gives its error. */
export function refused(reply: Reply<unknown>, status: number, code: string): Refusal['error'] {
  const body = reply.body as Partial<Refusal> | undefined
  assert.deepEqual([reply.status, body?.error?.code], [status, code], reply.text.slice(0, 300))
  const { error, detail } = body as Refusal
  assert.equal(typeof error.message, 'string')
  assert.equal(detail, error.message)
  assert.equal(error.retryable, [423, 429, 503].includes(status))
  assert.equal(reply.headers.get('x-request-id'), error.request_id)
  assert.equal(/^\d+$/.test(reply.headers.get('retry-after') ?? ''), error.retryable, 'Retry-After on 423, 429, 503 only')
  return error
}

/** The claims of a token, unverified. */
export const claimsOf = (token: string): Record<string, unknown> & { exp: number; iat: number; jti: string } =>
  JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())

/** A token whose payload or header is changed while its signature stays. */
export function forged(token: string, part: 'header' | 'payload', change: Record<string, unknown>): string {
  const parts = token.split('.')
  const index = part === 'header' ? 0 : 1
  parts[index] = Buffer.from(
    JSON.stringify({ ...JSON.parse(Buffer.from(parts[index] ?? '', 'base64url').toString()), ...change }),
  ).toString('base64url')
  return parts.join('.')
}
