import { expect } from 'vitest'
import type { Reply } from './api.ts'

type Refusal = {
  error: { code: string; message: string; retryable: boolean; request_id: string; details?: Record<string, unknown> }
  detail: string
}

/** What must never be in an answer: stack traces, and where things are on the host. */
export const INTERNALS = /\n\s+at |node:internal|node_modules|\.ts:\d|\/tmp\/|\.sock\b/

/** Checks that a reply is a refusal as the contract wants them (2.6), and returns its error. */
export const expectRefusal = (reply: Reply, status: number, code: string): Refusal['error'] => {
  expect([reply.status, (reply.body as Partial<Refusal> | undefined)?.error?.code], reply.text.slice(0, 500)).toEqual([status, code])
  const { error, detail } = reply.body as Refusal
  expect(error.message.length).toBeGreaterThan(5)
  expect(error.message.length).toBeLessThan(500)
  expect(error.message).not.toMatch(/undefined|\[object|Invalid input/)
  expect(detail).toBe(error.message)
  expect(error.retryable).toBe([423, 429, 503].includes(status))
  expect(error.request_id).toMatch(/^req_[0-9a-f-]{36}$/)
  expect(reply.headers.get('x-request-id')).toBe(error.request_id)
  // A disk that is low has room again when somebody has deleted something.
  const passes = error.retryable || error.details?.reason === 'disk_low'
  expect(reply.headers.get('retry-after')).toEqual(passes ? expect.stringMatching(/^\d+$/) : null)
  expect(reply.text).not.toMatch(INTERNALS)
  return error
}
