import { describe, expect, test } from 'vitest'
import { BoxofficeError } from '../src/base/errors.ts'
import { backoffMs } from '../src/network/backoff.ts'
import { afterDrop, type Drop, type DropHistory } from '../src/stream/reconnect.ts'

const url = 'ws://sandbox.example/v1/exec/ws'
const fresh: DropHistory = { attempt: 0, failingForMs: 0, windowMs: 30_000, renewed: false }
const drop = (code: number, error?: string): Drop => ({
  code,
  reason: '',
  url,
  error: error ? new BoxofficeError(error, 'told') : undefined,
})
const decide = (given: Drop, history: Partial<DropHistory> = {}) => {
  const step = afterDrop(given, { ...fresh, ...history }, () => 0)
  return step.type === 'fail' ? `fail ${step.error.code}` : step.type === 'reconnect' ? `after ${step.delayMs}` : 'renew'
}

describe('what follows a drop', () => {
  const rows: [name: string, given: Drop, history: Partial<DropHistory>, expected: string][] = [
    ['a lost connection', drop(1006), {}, 'after 250'],
    ['a second failure', drop(1006), { attempt: 1, failingForMs: 250 }, 'after 500'],
    ['a sixth failure', drop(1006), { attempt: 5, failingForMs: 8_000 }, 'after 8000'],
    ['a planned restart', drop(1001), {}, 'after 0'],
    ['a restart that is not over', drop(1001), { attempt: 1 }, 'after 500'],
    ['a restart that an error announces', drop(1001, 'INTERNAL'), {}, 'after 0'],
    ['a proxy that went away', drop(1012), {}, 'after 250'],
    ['an inner error of a hop', drop(1011), {}, 'after 250'],
    ['a defect', drop(1011, 'INTERNAL'), {}, 'fail INTERNAL'],
    ['the end of the window', drop(1006), { attempt: 6, failingForMs: 25_000 }, 'fail CONNECTION_FAILED'],
    ['an old token', drop(4401, 'TOKEN_EXPIRED'), {}, 'renew'],
    ['a refused token without a word', drop(4401), {}, 'renew'],
    ['a refused new token', drop(4401, 'TOKEN_EXPIRED'), { renewed: true }, 'fail TOKEN_EXPIRED'],
    ['denial', drop(4403, 'CAPABILITY_DENIED'), {}, 'fail CAPABILITY_DENIED'],
    ['denial without a word', drop(4403), {}, 'fail FORBIDDEN'],
    ['no such exec', drop(4404, 'EXEC_NOT_FOUND'), {}, 'fail EXEC_NOT_FOUND'],
    ['a late reader', drop(4408, 'TIMEOUT'), {}, 'after 250'],
    ['a takeover', drop(4409, 'TAKEN_OVER'), {}, 'fail TAKEN_OVER'],
    ['a takeover without a word', drop(4409), {}, 'fail TAKEN_OVER'],
    ['another command under the id', drop(4409, 'EXEC_CONFLICT'), {}, 'fail EXEC_CONFLICT'],
    ['the end of the session', drop(4410, 'SESSION_RELEASED'), {}, 'fail SESSION_RELEASED'],
    ['a starting sandbox', drop(4423, 'SANDBOX_STARTING'), {}, 'after 250'],
    ['too many', drop(4429, 'RATE_LIMITED'), {}, 'after 250'],
    ['an agent that is gone', drop(4503, 'BACKEND_UNAVAILABLE'), {}, 'after 250'],
    ['a sandbox that is gone', drop(4503, 'SANDBOX_LOST'), {}, 'fail SANDBOX_LOST'],
    ['a refused origin', drop(1008), {}, 'fail FORBIDDEN'],
    ['a message too large', drop(1009), {}, 'fail PAYLOAD_TOO_LARGE'],
    ['a code of a newer server', drop(4499, 'NEW_THING'), {}, 'fail NEW_THING'],
  ]
  test.for(rows)('%s', ([, given, history, expected]) => {
    expect(decide(given, history)).toBe(expected)
  })
})

test('waits double from 0.25 s to 8 s, less a random half', () => {
  const waits = Array.from({ length: 8 }, (_, attempt) => [backoffMs(attempt, () => 1), backoffMs(attempt, () => 0)])
  expect(waits.map(([, most]) => most)).toEqual([250, 500, 1000, 2000, 4000, 8000, 8000, 8000])
  for (const [least = 0, most = 0] of waits) expect(least).toBe(most / 2)
})
