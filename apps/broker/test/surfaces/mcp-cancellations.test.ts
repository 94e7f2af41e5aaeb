import { expect, test } from 'vitest'
import { Cancellations } from '../../src/surfaces/mcp-tools/cancellations.ts'

const ALICE = { tenant: 'one', id: 'alice' }
const asked = (id: unknown) => ({ jsonrpc: '2.0', id, method: 'tools/call', params: {} })
const cancelled = (requestId: unknown) => ({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId } })

test('a request is cancelled by who has sent it, in its session, by its id', () => {
  const cancellations = new Cancellations()
  const exchange = cancellations.begin(asked(7), ALICE, 's1')
  for (const [body, who, session] of [
    [cancelled(8), ALICE, 's1'],
    [cancelled('7'), ALICE, 's1'],
    [cancelled(7), ALICE, 's2'],
    [cancelled(7), ALICE, undefined],
    [cancelled(7), { tenant: 'two', id: 'alice' }, 's1'],
    [cancelled(7), { tenant: 'one', id: 'bob' }, 's1'],
  ] as const)
    cancellations.begin(body, who, session).end()
  expect(exchange.signal.aborted).toBe(false)
  cancellations.begin([cancelled(7)], ALICE, 's1').end()
  expect(exchange.signal.aborted).toBe(true)
})

test('a request that has ended cannot be cancelled, nor the next one of its id by its end', () => {
  const cancellations = new Cancellations()
  const first = cancellations.begin(asked(1), ALICE, 's')
  const second = cancellations.begin(asked(1), ALICE, 's')
  first.end()
  cancellations.begin(cancelled(1), ALICE, 's').end()
  expect([first.signal.aborted, second.signal.aborted]).toEqual([false, true])
  second.end()
})

test('whoever begins gets a session id, and nobody else; what is no message is let be', () => {
  const cancellations = new Cancellations()
  const initialize = { jsonrpc: '2.0', id: 0, method: 'initialize' }
  expect(cancellations.begin(initialize, ALICE, undefined).sessionId).toMatch(/^[\da-f-]{36}$/)
  for (const body of [asked(1), null, 'x', [], [null, 1], { id: {} }])
    expect(cancellations.begin(body, ALICE, 's').sessionId).toBeUndefined()
})
