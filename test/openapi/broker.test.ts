import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Validator } from '@seriousme/openapi-schema-validator'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestBroker, type TestBroker } from '../../apps/broker/test/support/test-broker.ts'
import { compare, type Document, type Exchange, operationsOf, recorded } from './answers.ts'

const SOURCE = join(import.meta.dirname, '../../apps/broker/src/surfaces')

let broker: TestBroker
let document: Document
/** What has gone over the wire as JSON: of this test, and of the agent that it starts. */
const exchanges: Exchange[] = []
const { fetch: realFetch } = globalThis

beforeAll(async () => {
  globalThis.fetch = (input, init) => recorded(realFetch, exchanges, input, init)
  broker = await startTestBroker({ compat: { box: true, sbs: true } })
  document = (await broker.get<Document>('/openapi.json')).body
})
afterAll(async () => {
  globalThis.fetch = realFetch
  await broker.stop()
})

describe('[2.14] the OpenAPI document', () => {
  test.each(['/openapi.json', '/compat/sbs/openapi.json'])('%s is valid OpenAPI 3.1', async (path) => {
    const { body } = await broker.get<object>(path)
    const validator = new Validator()
    expect(await validator.validate(structuredClone(body) as never)).toEqual({ valid: true })
    expect(validator.version).toBe('3.1')
  })

  test('it has every route that the surfaces define', () => {
    const sources = globSync('**/*.ts', { cwd: SOURCE }).map((file) => readFileSync(join(SOURCE, file), 'utf8'))
    const defined = sources
      .flatMap((text) => [...text.matchAll(/\bdefineRoute\(\{\s+method: '([A-Z]+)'/g)])
      .map(([, method]) => method?.toLowerCase())
    const described = operationsOf(document).filter((name) => name !== 'post /v1/mcp/servers/{name}/mcp')
    expect(defined.length).toBeGreaterThan(30)
    expect(described.map((name) => name.split(' ')[0]).sort()).toEqual(defined.sort())
  })

  test('each path answers the methods that it is described with, and no other', async () => {
    for (const [path, methods] of Object.entries(document.paths)) {
      if (path === '/v1/mcp/servers/{name}/mcp') continue
      const response = await realFetch(broker.url + path.replace('{id}', 'x'), { method: 'PATCH' })
      const allowed = response.headers
        .get('allow')
        ?.split(', ')
        .filter((method) => method !== 'HEAD')
      expect([path, response.status, allowed?.sort()]).toEqual([
        path,
        405,
        Object.keys(methods)
          .map((method) => method.toUpperCase())
          .sort(),
      ])
    }
  })
})

test('[2.14] what is sent and answered is as the OpenAPI document says', async () => {
  await useEverything()
  const { differences, succeeded } = compare(document, exchanges)
  expect(differences).toEqual([])
  // A stream that does not end, and what needs an MCP server: other tests have them.
  const others = ['get /v1/sandbox/sessions/{id}/events', 'post /v1/mcp/servers/{name}/mcp']
  expect(
    operationsOf(document)
      .filter((name) => !succeeded.has(name))
      .sort(),
  ).toEqual(others)
})

/** Calls every operation, and has some of them refused. */
async function useEverything(): Promise<void> {
  await broker.get('/readyz')
  const agent = await broker.startAgent({ egress: true })
  await agent.heartbeat()
  const ok = async <T>(answer: Promise<{ status: number; body: T }>): Promise<T> => {
    const { status, body } = await answer
    if (status >= 300) throw new Error(`${status} ${JSON.stringify(body)}`)
    return body
  }
  const { session_id: id } = await broker.ensure('all', { labels: { a: 'b' }, requested_capabilities: ['exec', 'nonsense'] })
  await broker.negotiate({ scope: { type: 'custom', id: 'x' }, mode: 'create_only' })
  await broker.refused({ thread_id: 'none', mode: 'get' })
  await broker.refused({ mode: 'perhaps' })
  await ok(broker.get('/v1/sandbox/sessions?limit=1'))
  await ok(broker.read(id))
  await ok(broker.read(id, '?token=false'))
  await ok(broker.refresh(id, {}))
  await ok(broker.refreshToken(id, { requested_capabilities: ['exec'] }))
  await ok(broker.heartbeat(id))
  await ok(broker.send('PUT', `/v1/sandbox/sessions/${id}/members`, { principals: ['somebody'] }))
  const replyOf = async (response: Response) => ({ status: response.status, body: (await response.json()) as unknown })
  const ports = `/v1/sandbox/sessions/${id}/ports`
  const { url } = await ok(broker.post<{ url: string }>(ports, { port: 5173 }))
  const { host, hostname } = new URL(url)
  await ok(broker.get(ports))
  await ok(broker.post(`${ports}/5173/link`, {}))
  await ok(agent.post(`/v1/agents/${agent.id}/previews/find`, agent.registration.agent_token, { host }).then(replyOf))
  await ok(agent.post(`/v1/agents/${agent.id}/previews/enter`, agent.registration.agent_token, { host, code: 'x' }).then(replyOf))
  await broker.get(`/internal/tls-ask?domain=${hostname}`)
  await ok(broker.delete(`${ports}/5173`))
  const { session_id: out } = await broker.ensure('out', { profile: 'network_basic' })
  const egress = `/v1/sandbox/sessions/${out}/egress`
  await ok(broker.get(egress))
  await ok(broker.send('PUT', egress, { allow: ['a.example'], rules: [{ host: 'b.example', methods: ['GET'] }] }))
  await broker.send('PUT', egress, { allow: ['@nowhere'] })
  await ok(broker.delete(egress))
  await ok(broker.get('/v1/sandbox/scope-templates'))
  await ok(broker.post('/v1/sandbox/scopes/resolve', {}))
  await ok(broker.get('/v1/profiles'))
  await ok(broker.get('/v1/usage?disk=true'))
  await ok(broker.get('/v1/agents'))
  await ok(broker.get('/v1/audit?limit=50'))
  const server = { name: 'one', command: 'node', args: ['server.js'] }
  await ok(broker.post('/v1/mcp/servers', server, { prefer: 'wait=0' }))
  await ok(broker.post('/v1/mcp/servers', server, { prefer: 'wait=0' }))
  await ok(broker.get('/v1/mcp/servers'))
  await ok(broker.get('/v1/mcp/servers/one'))
  await broker.post('/v1/mcp/servers/one/mcp', {})
  await ok(broker.delete('/v1/mcp/servers/one'))
  const { id: keyId } = await ok(broker.post<{ id: string }>('/v1/keys', { name: 'k', principal: 'p' }))
  await ok(broker.get('/v1/keys'))
  await ok(broker.delete(`/v1/keys/${keyId}`))
  const { id: tokenId } = await ok(broker.post<{ id: string }>('/v1/enroll-tokens', { name: 't' }))
  await ok(broker.get('/v1/enroll-tokens'))
  await ok(broker.as(broker.enrollToken).post('/v1/agents/challenge'))
  await ok(broker.delete(`/v1/enroll-tokens/${tokenId}`))
  for (const value of ['one', 'two']) await ok(broker.send('PUT', '/v1/secrets/token', { value }))
  await ok(broker.get('/v1/secrets?limit=1'))
  await ok(broker.get('/v1/secrets/token'))
  const asAgent = broker.as(agent.registration?.agent_token ?? '')
  await ok(asAgent.post(`/v1/agents/${agent.id}/secrets`, { session_id: id, names: ['token'] }))
  await ok(broker.delete('/v1/secrets/token'))
  for (const path of ['/metrics', '/docs'])
    await (await fetch(broker.url + path, { headers: { authorization: `Bearer ${broker.key}` } })).text()
  for (const path of ['/healthz', '/readyz', '/.well-known/jwks.json', '/openapi.json', '/nowhere']) await broker.get(path)
  await ok(broker.release(id))
  await broker.read(id)
  await ok(broker.delete('/v1/sandbox/threads/all'))
  await ok(broker.post(`/v1/agents/${agent.id}/rekey`))
  await ok(broker.post('/v1/signing-keys/rotate', {}))
}
