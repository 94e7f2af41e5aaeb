import type { RelayPreference } from '@boxoffice/protocol'
import { describe, expect, test } from 'vitest'
import { modeOf } from '../../src/agents/dataplane-mode.ts'
import { startTestBroker } from '../support/test-broker.ts'

const PREFERENCES: readonly RelayPreference[] = ['auto', 'always', 'never']

/** By what the request wants, then by the agent's setting; `none` is 503. */
const TABLE: Record<RelayPreference, Record<RelayPreference, 'direct' | 'relay' | 'none'>> = {
  auto: { auto: 'direct', always: 'relay', never: 'direct' },
  always: { auto: 'relay', always: 'relay', never: 'none' },
  never: { auto: 'direct', always: 'none', never: 'direct' },
}

describe.each(PREFERENCES)('[2.3] relay: %s', (wanted) => {
  test.each(PREFERENCES)('at an agent with %s', async (setting) => {
    const expected = TABLE[wanted][setting]
    expect(modeOf(wanted, setting) ?? 'none').toBe(expected)
    const broker = await startTestBroker()
    try {
      const agent = await broker.startAgent()
      await agent.register({ relay: setting, public_url: 'http://agent.test:7071' })
      const { status, body } = await broker.negotiate({ thread_id: 't', mode: 'ensure', relay: wanted })
      if (expected === 'none') {
        expect(status).toBe(503)
        expect(body).toMatchObject({
          error: { code: 'PROVIDER_UNAVAILABLE', retryable: true, message: expect.stringContaining('relay: ') },
        })
        expect((await broker.get<{ sessions: unknown[] }>('/v1/sandbox/sessions')).body.sessions).toEqual([])
        return
      }
      const base =
        expected === 'direct'
          ? `http://agent.test:7071/sandboxes/${body.sandbox.id}/v1`
          : `${broker.url}/v1/sandbox/relay/${body.session_id}/v1`
      const urls = { http_base_url: base, ws_base_url: base.replace('http', 'ws') }
      expect([status, body.dataplane]).toEqual([200, { ...urls, mode: expected }])
      expect(body.sandbox).toMatchObject(urls)
      expect((await broker.read(body.session_id)).body.dataplane).toEqual({ ...urls, mode: expected })
    } finally {
      await broker.stop()
    }
  })
})

test('a request may want otherwise than the session was made with, and a GET shows the session', async () => {
  const broker = await startTestBroker()
  try {
    await broker.startAgent()
    const made = await broker.ensure('t', { relay: 'always' })
    expect(made.dataplane.mode).toBe('relay')
    expect((await broker.ensure('t', { relay: 'never' })).dataplane.mode).toBe('direct')
    expect((await broker.ensure('t')).dataplane.mode).toBe('relay')
    expect((await broker.read(made.session_id)).body.dataplane.mode).toBe('relay')
  } finally {
    await broker.stop()
  }
})

test('what is not isolated is not relayed by a broker that others can reach', async () => {
  const exposed = await startTestBroker({
    host: '0.0.0.0',
    apiKey: 'Zx3vPq8rT1mN5kW9yB2cD7fG4hJ6sL0a',
    enrollToken: 'qW4eR7tY1uI9oP3aS6dF8gH2jK5lZ0xC',
  })
  try {
    const agent = await exposed.startAgent()
    const isolated = { name: 'fake', isolation: 'container', available: true, reason: null, suspend: [] }
    await agent.register({ provider: isolated })
    const grant = await exposed.ensure('t', { relay: 'always' })
    expect(grant.dataplane.mode).toBe('relay')
    // Whatever it says of itself, and whenever it says so.
    await agent.register({ relay: 'always', provider: { ...isolated, isolation: 'none' } })
    expect((await exposed.refused({ thread_id: 'u', mode: 'ensure', relay: 'always' })).status).toBe(503)
    const headers = { authorization: `Bearer ${grant.token}` }
    const path = new URL(grant.dataplane.http_base_url).pathname
    expect((await fetch(`${exposed.url}${path}/execs`, { headers })).status).toBe(503)
  } finally {
    await exposed.stop()
  }
})

test('a new sandbox goes to an agent that can be reached as wanted', async () => {
  const broker = await startTestBroker()
  try {
    const [open, hidden] = [await broker.startAgent(), await broker.startAgent()]
    await open.register({ relay: 'never' })
    await hidden.register({ relay: 'always' })
    for (let i = 0; i < 3; i++) {
      expect((await broker.ensure(`r${i}`, { relay: 'always' })).dataplane.mode).toBe('relay')
      expect((await broker.ensure(`d${i}`, { relay: 'never' })).dataplane.mode).toBe('direct')
    }
    // The agent of a session that is there cannot be changed by a wish.
    expect((await broker.refused({ thread_id: 'd0', mode: 'get', relay: 'always' })).status).toBe(503)
    expect((await broker.negotiate({ thread_id: 'd0', mode: 'get' })).body.dataplane.mode).toBe('direct')
  } finally {
    await broker.stop()
  }
})
