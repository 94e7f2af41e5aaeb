import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { nodeInstallId } from '@boxoffice/node-http'
import type { RegisterAgentRequest } from '@boxoffice/protocol'
import { type JWTHeaderParameters, SignJWT } from 'jose'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import type { BrokerConfig } from '../../src/index.ts'
import { askChallenge, newAgentKey, proofBy, registrationOf } from '../support/agent-key.ts'
import { AUDIENCE, startIdentityProvider } from '../support/identity-provider.ts'
import { json, startServer } from '../support/server.ts'
import { startTestBroker, type TestBroker, tempDir } from '../support/test-broker.ts'

type Cluster = Awaited<ReturnType<typeof startIdentityProvider>>

const ACCOUNT = 'boxoffice-system/boxoffice-agent'
const NODE = 'node1'

let cluster: Cluster
let broker: TestBroker
const settings = (fields: object = {}): Partial<BrokerConfig> => ({
  kubernetesAgents: { issuer: cluster.issuer, jwksUrl: cluster.jwksUrl, accounts: [ACCOUNT], ...fields },
})
beforeEach(async () => {
  cluster = await startIdentityProvider()
  broker = await startTestBroker(settings())
})
afterEach(async () => {
  await broker.stop()
  await cluster.close()
})

type Claims = { account?: string; sub?: string; node?: string | null; [claim: string]: unknown }

/** The claims of a token as an API server binds it to a pod. */
const claimsOf = ({ account = ACCOUNT, node = NODE, ...claims }: Claims = {}) => {
  const [namespace, name] = account.split('/')
  const bound = {
    namespace,
    serviceaccount: { name, uid: 'u1' },
    pod: { name: 'agent-x', uid: 'u2' },
    ...(node === null ? {} : { node: { name: node, uid: 'u3' } }),
  }
  return { sub: `system:serviceaccount:${namespace}:${name}`, 'kubernetes.io': bound, ...claims }
}
const tokenOf = (claims: Claims = {}, header: Partial<JWTHeaderParameters> = {}) => cluster.token(claimsOf(claims), header)

type Registered = { status: number; body: { agent_id: string; error?: { code: string; message: string; details?: { reason: string } } } }
const register = async (token: string, fields: Partial<RegisterAgentRequest> = {}, key = newAgentKey()): Promise<Registered> => {
  const request = registrationOf({ install_id: nodeInstallId(NODE), instance_id: randomBytes(6).toString('hex'), ...fields })
  return broker
    .as(token)
    .post('/v1/agents/register', { ...request, proof: proofBy(key, await askChallenge(broker.url, broker.enrollToken), request) })
}
/** The status, and why. */
const outcome = ({ status, body }: Registered) =>
  body.error === undefined ? status : `${status} ${body.error.details?.reason ?? body.error.code}`

describe('[C-50] the agent of a Kubernetes node', () => {
  test('registers by the token of its service account, as the install of its node', async () => {
    const token = await tokenOf()
    expect((await broker.as(token).post('/v1/agents/challenge')).status).toBe(200)
    expect(outcome(await register(token))).toBe(200)
    const { entries } = (await broker.get<{ entries: { caller: string; data: unknown }[] }>('/v1/audit?event=agent.register')).body
    expect(entries).toMatchObject([{ caller: 'k8s-node.node1', data: { service_account: ACCOUNT, node: NODE } }])
  })

  test('does not take over from one that is there', async () => {
    await register(await tokenOf(), { control_url: await instanceAt('aaaaaaaaaaaa'), instance_id: 'aaaaaaaaaaaa' })
    expect(outcome(await register(await tokenOf(), { instance_id: 'bbbbbbbbbbbb' }))).toBe('409 agent_elsewhere')
  })

  test('comes back from a new data directory, with another key, and keeps its id', async () => {
    const first = await register(await tokenOf())
    const second = await register(await tokenOf(), { instance_id: 'bbbbbbbbbbbb' })
    expect([outcome(second), second.body.agent_id]).toEqual([200, first.body.agent_id])
    expect((await broker.get<{ agents: unknown[] }>('/v1/agents')).body.agents).toHaveLength(1)
  })

  test('has a key of its own', async () => {
    const request = registrationOf({ install_id: nodeInstallId(NODE) })
    expect((await broker.as(await tokenOf()).post('/v1/agents/register', request)).status).toBe(403)
  })

  test('may have a name that no label takes', async () => {
    const node = `${'long.'.repeat(40)}example`
    expect(nodeInstallId(node)).toMatch(/^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/)
    expect(outcome(await register(await tokenOf({ node }), { install_id: nodeInstallId(node) }))).toBe(200)
    expect(outcome(await register(await tokenOf({ node: `${node}s` }), { install_id: nodeInstallId(node) }))).toBe('403 node_mismatch')
  })
})

describe('[C-50] a service account token is refused', () => {
  const wrong: [name: string, token: () => Promise<string>, outcome: string][] = [
    ['for another audience', () => tokenOf({ aud: 'https://kubernetes.default.svc' }), '401 UNAUTHENTICATED'],
    ['of another issuer', () => tokenOf({ iss: 'https://other.example' }), '401 UNAUTHENTICATED'],
    ['that has expired', () => tokenOf({ exp: Math.floor(Date.now() / 1000) - 1 }), '401 UNAUTHENTICATED'],
    ['without an end', () => tokenOf({ exp: undefined }), '401 UNAUTHENTICATED'],
    ['that is not valid yet', () => tokenOf({ nbf: Math.floor(Date.now() / 1000) + 600 }), '401 UNAUTHENTICATED'],
    ['of another account', () => tokenOf({ account: 'boxoffice-system/default' }), '403 service_account_not_allowed'],
    ['of the same name in another namespace', () => tokenOf({ account: 'other/boxoffice-agent' }), '403 service_account_not_allowed'],
    ['whose subject is another account', () => tokenOf({ sub: 'system:serviceaccount:other:boxoffice-agent' }), '401 UNAUTHENTICATED'],
    ['with no claims of Kubernetes', () => tokenOf({ 'kubernetes.io': undefined }), '401 UNAUTHENTICATED'],
    ['that names no node', () => tokenOf({ node: null }), '403 node_claim_missing'],
    ['of a pod on another node', () => tokenOf({ node: 'node2' }), '403 node_mismatch'],
    ['that is not signed', async () => unsigned({ alg: 'none', kid: 'k1' }), '401 UNAUTHENTICATED'],
    ['that names no key', async () => unsigned({ alg: 'none' }), '401 UNAUTHENTICATED'],
    ['by HS256 with the public key as the secret', () => symmetric(), '401 UNAUTHENTICATED'],
    ['by a key that the cluster does not have', () => tokenOf({}, { kid: 'k-none' }), '401 UNAUTHENTICATED'],
  ]
  test.each(wrong)('%s', async (_, make, expected) => {
    expect(outcome(await register(await make()))).toBe(expected)
    expect((await broker.get<{ agents: unknown[] }>('/v1/agents')).body.agents).toEqual([])
  })

  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const whole = () => ({ iss: cluster.issuer, aud: AUDIENCE, exp: Math.floor(Date.now() / 1000) + 300, ...claimsOf() })
  const unsigned = (header: object) => `${part(header)}.${part(whole())}.`
  const symmetric = () =>
    new SignJWT(whole()).setProtectedHeader({ alg: 'HS256', kid: 'k1' }).sign(new TextEncoder().encode(JSON.stringify(cluster.jwk('k1'))))

  test('by a broker that knows no cluster', async () => {
    const plain = await startTestBroker()
    onTestFinished(() => plain.stop())
    expect((await plain.as(await tokenOf()).post('/v1/agents/challenge')).status).toBe(401)
  })

  test('as a server credential', async () => {
    expect((await broker.as(await tokenOf()).get('/v1/profiles')).status).toBe(401)
  })

  test('while the keys of the cluster cannot be had, and not after that', async () => {
    cluster.state.status = 500
    expect((await register(await tokenOf())).status).toBe(503)
    cluster.state.status = 200
    await broker.advance(2001)
    expect(outcome(await register(await tokenOf()))).toBe(200)
  })
})

describe('[C-50] the keys of the cluster', () => {
  test('are read again when the cluster has a new one, and an old one is good no more when it is gone', async () => {
    const old = await tokenOf({ exp: Math.floor(Date.now() / 1000) + 3600 })
    expect(outcome(await register(old))).toBe(200)
    await cluster.addKey('k2')
    cluster.removeKey('k1')
    await broker.advance(31_000)
    expect(outcome(await register(await tokenOf({}, { kid: 'k2' })))).toBe(200)
    expect(outcome(await register(old))).toBe('401 UNAUTHENTICATED')
  })

  test('are read with a token that is read anew, or from a file', async () => {
    const directory = tempDir()
    const [tokenFile, jwksFile] = [join(directory, 'token'), join(directory, 'jwks.json')]
    for (const secret of ['first', 'second']) {
      writeFileSync(tokenFile, `${secret}\n`)
      await broker.stop()
      broker = await startTestBroker(settings({ tokenFile }))
      expect(outcome(await register(await tokenOf()))).toBe(200)
      expect(cluster.received.at(-1)?.headers.authorization).toBe(`Bearer ${secret}`)
    }
    writeFileSync(jwksFile, JSON.stringify({ keys: [cluster.jwk('k1')] }))
    await broker.stop()
    broker = await startTestBroker(settings({ jwksFile, jwksUrl: undefined }))
    expect(outcome(await register(await tokenOf()))).toBe(200)
  })
})

describe('[C-50] beside the tokens of service accounts', () => {
  test('enroll tokens go on, and do not register the install of a node', async () => {
    expect(outcome(await register(broker.enrollToken, { install_id: '0123456789abcdef' }))).toBe(200)
    expect(outcome(await register(broker.enrollToken))).toBe('403 node_install')
  })

  test('a node does not register another install', async () => {
    expect(outcome(await register(await tokenOf(), { install_id: '0123456789abcdef' }))).toBe('403 node_mismatch')
  })
})

describe('the setting kubernetes_agents', () => {
  const start = (fields: object) => startTestBroker(settings(fields)).then((started) => started.stop())
  test.each([
    ['without the place of the keys', { jwksUrl: undefined }, /jwks_url or jwks_file/],
    ['with two places', { jwksFile: '/keys' }, /not both/],
    ['with keys that come without TLS', { jwksUrl: 'http://10.0.0.1/jwks' }, /https/],
    ['without an account', { accounts: [] }, /accounts/],
    ['with an account without its namespace', { accounts: ['boxoffice-agent'] }, /NAMESPACE\/NAME/],
  ])('is refused %s', async (_, fields, message) => {
    await expect(start(fields)).rejects.toThrow(message)
  })
})

/** The control listener of an agent that says that it is this instance of the node's install. */
async function instanceAt(instance: string): Promise<string> {
  const server = await startServer((_, response) => json(response, 200, { install_id: nodeInstallId(NODE), instance_id: instance }))
  onTestFinished(() => server.close())
  return server.url
}
