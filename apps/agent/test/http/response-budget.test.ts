import { BoxofficeError } from '@boxoffice/protocol'
import { expect, test } from 'vitest'
import { ResponseBudget } from '../../src/http/responses/response-budget.ts'

const MiB = 1024 * 1024

const of = (sid: string, tid = sid) => ({ sid, tid })

const refusal = (reserve: () => unknown): BoxofficeError | undefined => {
  try {
    reserve()
    return undefined
  } catch (error) {
    if (error instanceof BoxofficeError) return error
    throw error
  }
}

test('[C-63] a session reserves up to 128 MiB, all of them 512 MiB; above it is 429', () => {
  const budget = new ResponseBudget()
  const first = Array.from({ length: 4 }, () => budget.reserve(of('a'), 16 * MiB))
  expect(budget.held).toBe(128 * MiB)
  const refused = refusal(() => budget.reserve(of('a'), 2 * MiB))
  expect(refused).toMatchObject({ code: 'RATE_LIMITED', status: 429, retryAfter: 1, details: { limit: 'buffered_answers' } })
  for (const session of ['b', 'c', 'd']) for (let i = 0; i < 4; i++) budget.reserve(of(session), 16 * MiB)
  expect(refusal(() => budget.reserve(of('e'), 2 * MiB))?.code).toBe('RATE_LIMITED')
  for (const lease of first) {
    lease.release()
    lease.release()
  }
  expect(budget.held).toBe(384 * MiB)
  expect(refusal(() => budget.reserve(of('e'), 16 * MiB))).toBeUndefined()
})

test('up to 1 MiB reserves nothing, and counts from when it is there', () => {
  const budget = new ResponseBudget({ perSession: 4 * MiB, perTenant: 5 * MiB, perAgent: 6 * MiB })
  const leases = Array.from({ length: 5 }, () => budget.reserve(of('a'), MiB))
  expect(budget.held).toBe(0)
  for (const lease of leases) lease.hold(MiB)
  expect(budget.held).toBe(5 * MiB)
  expect(refusal(() => budget.reserve(of('a'), 0))?.code).toBe('RATE_LIMITED')
  expect(refusal(() => budget.reserve(of('b'), 0))).toBeUndefined()
  for (const lease of leases) lease.release()
  leases[0]?.hold(MiB)
  expect(budget.held).toBe(0)
})

test('many sessions of a tenant reserve half of it, and what reserves nothing waits for no other session', () => {
  const budget = new ResponseBudget()
  const many = Array.from({ length: 16 }, (_, i) => () => budget.reserve(of(`s${i}`, 'greedy'), 16 * MiB))
  expect(many.filter((reserve) => refusal(reserve) === undefined)).toHaveLength(8)
  expect(refusal(() => budget.reserve(of('other'), 16 * MiB))).toBeUndefined()
  for (let i = 0; i < 32; i++) budget.reserve(of('small', 'greedy'), MiB).hold(MiB)
  expect(refusal(() => budget.reserve(of('other', 'greedy'), MiB))).toBeUndefined()
  for (let i = 0; i < 256; i++) budget.reserve(of(`more${i}`), MiB).hold(MiB)
  expect(budget.held).toBeGreaterThan(512 * MiB)
  expect(refusal(() => budget.reserve(of('tenant'), MiB))).toBeUndefined()
  expect(refusal(() => budget.reserve(of('tenant'), 2 * MiB))?.code).toBe('RATE_LIMITED')
})
