import type { RegisterAgentRequest } from '@boxoffice/protocol'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { askChallenge, newAgentKey, proofBy, registrationOf } from '../support/agent-key.ts'
import { removeDir, startTestBroker, type TestBroker, tempDir } from '../support/test-broker.ts'

let broker: TestBroker
beforeEach(async () => {
  broker = await startTestBroker()
})
afterEach(() => broker.stop())

const key = newAgentKey()
const plain = registrationOf({ install_id: 'install-of-this-test' })
const challenge = () => askChallenge(broker.url, broker.enrollToken)
const register = (request: RegisterAgentRequest) =>
  broker.as(broker.enrollToken).post<{ agent_id: string; agent_token: string }>('/v1/agents/register', request)
const proven = async (request = plain, by = key): Promise<RegisterAgentRequest> => ({
  ...request,
  proof: proofBy(by, await challenge(), request),
})
const statusOf = async (request: RegisterAgentRequest): Promise<number> => (await register(request)).status

describe('[C-50] the key of an install', () => {
  test('is pinned at its first registration: no key and another key are 403, its own one keeps the id', async () => {
    const { status, body } = await register(await proven())
    expect(status).toBe(200)
    expect(await statusOf(plain)).toBe(403)
    expect(await statusOf(await proven(plain, newAgentKey()))).toBe(403)
    const again = await register(await proven({ ...plain, instance_id: 'ba9876543210', public_url: 'http://127.0.0.1:10' }))
    expect([again.status, again.body.agent_id]).toEqual([200, body.agent_id])
  })

  test('an install of before registers without one until it has one', async () => {
    const { body } = await register(plain)
    const again = (await register({ ...plain, agent_token: body.agent_token })).body
    expect(again.agent_id).toBe(body.agent_id)
    expect((await register(await proven({ ...plain, agent_token: again.agent_token }))).body.agent_id).toBe(body.agent_id)
    expect(await statusOf(plain)).toBe(403)
  })

  test('of two that come at once with different keys, one is taken', async () => {
    const requests = await Promise.all([proven(), proven(plain, newAgentKey())])
    expect((await Promise.all(requests.map(statusOf))).sort()).toEqual([200, 403])
  })

  test('is forgotten by an operator of the root tenant; the next registration brings another one', async () => {
    const { body } = await register(await proven())
    const path = `/v1/agents/${body.agent_id}/rekey`
    for (const other of [await broker.principal('user'), await broker.principal('other', { tenant: 'other', role: 'operator' })])
      expect((await other.post(path)).status).toBe(403)
    const next = newAgentKey()
    expect(await statusOf(await proven(plain, next))).toBe(403)
    expect((await broker.post(path)).status).toBe(204)
    expect((await broker.post('/v1/agents/agt_unknown/rekey')).status).toBe(404)
    expect((await register(await proven({ ...plain, instance_id: 'ba9876543210' }, next))).body.agent_id).toBe(body.agent_id)
    expect(await statusOf(await proven())).toBe(403)
  })
})

describe('[C-50] the proof of a registration', () => {
  test('is good once', async () => {
    const request = await proven()
    expect([await statusOf(request), await statusOf(request)]).toEqual([200, 409])
  })

  test('is good for 60 s', async () => {
    const request = await proven()
    await broker.advance(60_001)
    expect(await statusOf(request)).toBe(409)
    expect(await statusOf(await proven())).toBe(200)
  })

  test('is good at the other one of two brokers, and once at both together', async () => {
    const dataDir = tempDir()
    const settings = { dataDir, sharedDataDir: true, apiKey: 'k'.repeat(40), enrollToken: 'enroll-token-of-two-brokers' }
    await using parts = new AsyncDisposableStack()
    parts.defer(() => removeDir(dataDir))
    const [one, two] = [await startTestBroker(settings), await startTestBroker(settings)]
    parts.defer(() => one.stop())
    parts.defer(() => two.stop())
    const at = (which: TestBroker, request: RegisterAgentRequest) => which.as(which.enrollToken).post('/v1/agents/register', request)
    const signedFor = async (): Promise<RegisterAgentRequest> => ({
      ...plain,
      proof: proofBy(key, await askChallenge(one.url, one.enrollToken), plain),
    })
    const request = await signedFor()
    expect((await at(two, request)).status).toBe(200)
    // A replay, by whoever has seen it.
    for (const which of [one, two]) expect((await at(which, request)).status).toBe(409)
    const another = await signedFor()
    const both = await Promise.all([at(two, another), at(one, another)])
    expect(both.map(({ status }) => status).sort()).toEqual([200, 409])
  })

  const changes: [string, (request: RegisterAgentRequest) => RegisterAgentRequest][] = [
    ['the install', (request) => ({ ...request, install_id: 'another-install' })],
    ['the instance', (request) => ({ ...request, instance_id: 'ffffffffffff' })],
    ['the control URL', (request) => ({ ...request, control_url: 'http://127.0.0.1:11' })],
    ['the public URL', (request) => ({ ...request, public_url: 'http://127.0.0.1:11' })],
    ['the dataplane URL', (request) => ({ ...request, dataplane_url: 'http://127.0.0.1:11' })],
    ['the key', (request) => ({ ...request, proof: request.proof && { ...request.proof, public_key: newAgentKey().publicKey } })],
    ['the signature', (request) => ({ ...request, proof: request.proof && { ...request.proof, signature: newAgentKey().sign('x') } })],
    ['the nonce', (request) => ({ ...request, proof: request.proof && { ...request.proof, nonce: 'A'.repeat(32) } })],
  ]
  test.each(changes)('covers %s', async (_, change) => {
    expect(await statusOf(change(await proven()))).toBe(409)
  })

  test('is of this broker: a challenge of another issuer is refused', async () => {
    const asked = await challenge()
    expect(await statusOf({ ...plain, proof: proofBy(key, { ...asked, issuer: 'http://elsewhere.example' }, plain) })).toBe(409)
  })

  test('is asked for with the enroll token only', async () => {
    for (const credential of ['wrong', broker.key]) expect((await broker.as(credential).post('/v1/agents/challenge')).status).toBe(401)
  })
})
