import type { RegisterAgentRequest } from '@boxoffice/protocol'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { askChallenge, newAgentKey, proofBy, registrationOf } from '../support/agent-key.ts'
import { startTestBroker, type TestBroker } from '../support/test-broker.ts'

type EnrollToken = { id: string; token: string; name: string; one_use: boolean; used_at: string | null; used_by: string | null }

let broker: TestBroker
beforeEach(async () => {
  broker = await startTestBroker()
})
afterEach(() => broker.stop())

const create = async (fields: Record<string, unknown> = {}): Promise<EnrollToken> => {
  const { status, body } = await broker.post<EnrollToken>('/v1/enroll-tokens', { name: 'of a test', ...fields })
  expect(status).toBe(201)
  return body
}
const list = async () => (await broker.get<{ enroll_tokens: EnrollToken[] }>('/v1/enroll-tokens')).body.enroll_tokens

const install = (name: string, key = newAgentKey()) => ({
  key,
  async register(token: string, fields: Partial<RegisterAgentRequest> = {}) {
    const request = registrationOf({ install_id: `install-${name}`, ...fields })
    const proof = proofBy(key, await askChallenge(broker.url, broker.enrollToken), request)
    return broker
      .as(token)
      .post<{ agent_id: string; error?: { code: string; details?: { reason: string } } }>('/v1/agents/register', { ...request, proof })
  },
  /** The status, and why. */
  async outcome(token: string) {
    const { status, body } = await this.register(token)
    return body.error === undefined ? status : `${status} ${body.error.details?.reason ?? body.error.code}`
  },
})

describe('[C-50] an enroll token', () => {
  test('registers installs, many of them, and is listed without its secret', async () => {
    const { token, id } = await create()
    expect(token).toMatch(/^bxe_[\w-]{43}$/)
    const { status, body } = await install('one').register(token)
    expect([status, await install('two').outcome(token)]).toEqual([200, 200])
    const [listed] = await list()
    expect(listed).toMatchObject({ id, name: 'of a test', one_use: false, used_by: expect.stringMatching(/^agt_/) })
    expect(JSON.stringify(listed)).not.toContain(token)
    const audit = await broker.get<{ entries: { event: string; data: unknown }[] }>('/v1/audit?event=agent.register')
    expect(audit.body.entries.map(({ data }) => data)).toEqual([{ enroll_token_id: id }, { enroll_token_id: id }])
    expect(body.agent_id).not.toBe(listed?.used_by)
  })

  test('of one use is for one install, which may come again', async () => {
    const { token } = await create({ one_use: true })
    const first = install('first')
    const { body } = await first.register(token)
    expect(await install('second').outcome(token)).toBe('403 enroll_token_spent')
    expect((await first.register(token, { instance_id: 'aaaaaaaaaaaa' })).body.agent_id).toBe(body.agent_id)
    expect((await list())[0]).toMatchObject({ one_use: true, used_by: body.agent_id, used_at: expect.any(String) })
  })

  test('of one use is spent by one of ten that come at once', async () => {
    const { token } = await create({ one_use: true })
    const statuses = await Promise.all(Array.from({ length: 10 }, (_, i) => install(`many-${i}`).outcome(token)))
    expect(statuses.filter((status) => status === 200)).toHaveLength(1)
    expect(statuses.filter((status) => status === '403 enroll_token_spent')).toHaveLength(9)
    expect((await broker.get<{ agents: unknown[] }>('/v1/agents')).body.agents).toHaveLength(1)
  })

  test('that was refused with its registration is not spent', async () => {
    const { token } = await create({ one_use: true })
    await install('pinned').register(broker.enrollToken)
    expect(await install('pinned').outcome(token)).toBe('403 FORBIDDEN')
    expect(await install('another').outcome(token)).toBe(200)
  })

  test('does not serve for another key after it was spent, also when the pinned one is forgotten', async () => {
    const { token } = await create({ one_use: true })
    const { body } = await install('lost').register(token)
    await broker.post(`/v1/agents/${body.agent_id}/rekey`)
    const { status, body: refused } = await install('lost').register(token, { instance_id: 'bbbbbbbbbbbb' })
    expect([status, refused.error?.details?.reason]).toEqual([403, 'enroll_token_spent'])
  })

  test('has an end for new installs, not for those that it has enrolled', async () => {
    const { token } = await create({ expires_in_seconds: 60 })
    const early = install('early')
    expect(await early.outcome(token)).toBe(200)
    await broker.advance(60_001)
    expect(await install('late').outcome(token)).toBe('403 enroll_token_expired')
    expect(await early.outcome(token)).toBe(200)
  })

  test('that is revoked is refused to everybody, the challenge included', async () => {
    const { token, id } = await create()
    const known = install('known')
    await known.register(token)
    expect((await broker.delete(`/v1/enroll-tokens/${id}`)).status).toBe(204)
    expect((await broker.delete(`/v1/enroll-tokens/${id}`)).status).toBe(404)
    expect([await known.outcome(token), await install('new').outcome(token)]).toEqual(Array(2).fill('403 enroll_token_revoked'))
    expect((await broker.as(token).post('/v1/agents/challenge')).status).toBe(403)
    expect(await known.outcome(broker.enrollToken)).toBe(200)
    const { entries } = (await broker.get<{ entries: { event: string }[] }>('/v1/audit?event=enroll_token.revoke')).body
    expect(entries).toHaveLength(1)
  })

  test('that nobody has made is 401; an agent without a key is refused', async () => {
    expect(await install('x').outcome(`bxe_${'A'.repeat(43)}`)).toBe('401 UNAUTHENTICATED')
    const { token } = await create({ one_use: true })
    expect((await broker.as(token).post('/v1/agents/register', registrationOf({ install_id: 'without-key' }))).status).toBe(403)
    expect(await install('x').outcome(token)).toBe(200)
  })

  test('is for operators of the root tenant, and its fields are checked', async () => {
    const { token, id } = await create()
    const others = [await broker.principal('user'), await broker.principal('other', { tenant: 'other', role: 'operator' })]
    for (const other of others) {
      expect((await other.post('/v1/enroll-tokens', { name: 'mine' })).status).toBe(403)
      expect((await other.get('/v1/enroll-tokens')).status).toBe(403)
      expect((await other.delete(`/v1/enroll-tokens/${id}`)).status).toBe(403)
    }
    expect((await broker.as(token).get('/v1/enroll-tokens')).status).toBe(401)
    for (const fields of [{ name: '' }, { expires_in_seconds: 0 }, { one_use: 'yes' }])
      expect((await broker.post('/v1/enroll-tokens', { name: 'of a test', ...fields })).status).toBe(400)
  })
})
