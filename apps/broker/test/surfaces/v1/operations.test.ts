import { BUILT_IN_PROFILES } from '@boxoffice/protocol'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Refusal, startTestBroker, type TestBroker } from '../../support/test-broker.ts'

let broker: TestBroker
beforeAll(async () => {
  broker = await startTestBroker({ corsOrigins: ['https://app.example'], trustedProxies: ['127.0.0.1'] })
})
afterAll(() => broker.stop())

const text = async (path: string, headers: Record<string, string> = {}) => {
  const response = await fetch(broker.url + path, { headers })
  return { status: response.status, type: response.headers.get('content-type') ?? '', body: await response.text() }
}

describe('[2.14] operations', () => {
  test('/healthz is 200 from the start; /readyz is 503 with the reasons until a provider is there', async () => {
    expect((await text('/healthz')).status).toBe(200)
    const early = await broker.get<Refusal>('/readyz')
    expect([early.status, early.body.error.details]).toEqual([503, { reasons: [expect.stringContaining('no agent')] }])
    await broker.startAgent()
    expect((await text('/readyz')).status).toBe(200)
  })

  test('/readyz is 503 when the relay reaches no agent, and warns when it reaches only some', async () => {
    const own = await startTestBroker()
    try {
      const away = await own.startAgent()
      await away.register({ dataplane_url: 'http://127.0.0.1:1' })
      const refused = await own.get<Refusal>('/readyz')
      const missed = expect.stringContaining(`agent ${away.id} does not answer`)
      expect([refused.status, refused.body.error.details]).toEqual([503, { reasons: [missed] }])
      // Clients of this one are never relayed.
      await away.register({ dataplane_url: 'http://127.0.0.1:1', relay: 'never' })
      expect((await own.get('/readyz')).body).toEqual({ status: 'ready' })
      await away.register({ dataplane_url: 'http://127.0.0.1:1' })
      await own.startAgent()
      await expect.poll(async () => (await own.get('/readyz')).body, { timeout: 60_000 }).toEqual({ status: 'ready', warnings: [missed] })
    } finally {
      await own.stop()
    }
  })

  test('/metrics is Prometheus text: sessions by state, latencies, errors by code', async () => {
    await broker.ensure('t')
    await broker.refused({ thread_id: 'none', mode: 'get' })
    const { status, type, body } = await text('/metrics')
    expect([status, type]).toEqual([200, expect.stringMatching(/^text\/plain/)])
    expect(body).toContain('boxoffice_sessions{state="active"} 1')
    expect(body).toMatch(/boxoffice_broker_errors_total\{code="BINDING_NOT_FOUND"\} \d/)
    expect(body).toContain('boxoffice_broker_request_seconds_bucket')
  })

  test('/metrics from elsewhere takes an operator key', async () => {
    const user = await broker.principal('user')
    const forwarded = { 'x-forwarded-for': '203.0.113.9' }
    expect((await text('/metrics', forwarded)).status).toBe(401)
    expect((await text('/metrics', { ...forwarded, 'x-api-key': user.key })).status).toBe(403)
    expect((await text('/metrics', { ...forwarded, 'x-api-key': broker.key })).status).toBe(200)
  })

  test('GET /v1/profiles lists the four that ship', async () => {
    expect((await broker.get<{ profiles: unknown }>('/v1/profiles')).body.profiles).toEqual(BUILT_IN_PROFILES)
  })

  test('the address of a caller behind a trusted proxy is in the audit log', async () => {
    await broker.negotiate({ thread_id: 'proxied', mode: 'ensure' }, { 'x-forwarded-for': 'spoofed, 203.0.113.9' })
    const { entries } = (await broker.get<{ entries: { ip: string }[] }>('/v1/audit?thread_id=proxied&event=sandbox.session.acquire')).body
    expect(entries.map(({ ip }) => ip)).toEqual(['203.0.113.9'])
  })
})

describe('[2.14] OpenAPI', () => {
  const routes = [
    ...['post /v1/sandbox/sessions', 'get /v1/sandbox/sessions', 'get /v1/sandbox/sessions/{id}', 'delete /v1/sandbox/sessions/{id}'],
    ...[
      'post /v1/sandbox/sessions/{id}/refresh',
      'post /v1/sandbox/sessions/{id}/refresh-token',
      'post /v1/signing-keys/rotate',
      'post /v1/agents/challenge',
      'post /v1/agents/{id}/rekey',
      'post /v1/enroll-tokens',
      'get /v1/enroll-tokens',
      'delete /v1/enroll-tokens/{id}',
      'post /v1/sandbox/sessions/{id}/heartbeat',
      'get /v1/sandbox/sessions/{id}/events',
      'put /v1/sandbox/sessions/{id}/members',
      'delete /v1/sandbox/threads/{id}',
      'get /v1/sandbox/scope-templates',
      'post /v1/sandbox/scopes/resolve',
      'get /v1/profiles',
      'get /v1/mcp/servers',
      'post /v1/mcp/servers',
      'get /v1/mcp/servers/{id}',
      'delete /v1/mcp/servers/{id}',
      'post /v1/mcp/servers/{name}/mcp',
      'get /v1/usage',
      'get /v1/audit',
      'post /v1/keys',
      'get /v1/keys',
      'delete /v1/keys/{id}',
    ],
    ...['get', 'put', 'delete'].map((method) => `${method} /v1/sandbox/sessions/{id}/egress`),
    ...['get', 'put', 'delete'].map((method) => `${method} /v1/secrets/{id}`),
    ...['get /v1/secrets', 'post /v1/agents/{id}/secrets'],
    ...['post /v1/sandbox/sessions/{id}/ports', 'get /v1/sandbox/sessions/{id}/ports', 'delete /v1/sandbox/sessions/{id}/ports/{port}'],
    ...['post /v1/sandbox/sessions/{id}/ports/{port}/link', 'get /internal/tls-ask'],
    ...['post /v1/agents/{id}/previews/find', 'post /v1/agents/{id}/previews/enter'],
    ...['post /v1/agents/register', 'post /v1/agents/{id}/heartbeat', 'get /v1/agents', 'get /.well-known/jwks.json'],
    ...['get /healthz', 'get /readyz', 'get /metrics', 'get /openapi.json', 'get /docs'],
  ]
  type Document = {
    openapi: string
    servers: { url: string }[]
    paths: Record<string, Record<string, { requestBody?: unknown; responses: object }>>
  }

  test('lists every route, with the schemas that check the requests', async () => {
    const { body } = await broker.get<Document>('/openapi.json')
    const listed = Object.entries(body.paths).flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method} ${path}`))
    expect(listed.sort()).toEqual([...routes].sort())
    expect(body.openapi).toBe('3.1.0')
    expect(body.servers).toEqual([{ url: broker.url }])
    const negotiate = body.paths['/v1/sandbox/sessions']?.post
    expect(JSON.stringify(negotiate?.requestBody)).toContain('"thread_id"')
    expect(JSON.stringify(negotiate?.responses)).toContain('"http_base_url"')
  })

  test('/docs is a page that loads nothing from elsewhere', async () => {
    const { status, type, body } = await text('/docs')
    expect([status, type]).toEqual([200, 'text/html; charset=utf-8'])
    expect(body).toContain('/openapi.json')
    expect(body).not.toMatch(/(src|href)="https?:/)
  })
})

describe('[C-69] CORS', () => {
  const preflight = (origin: string) =>
    fetch(`${broker.url}/v1/sandbox/sessions`, { method: 'OPTIONS', headers: { origin, 'access-control-request-method': 'POST' } })

  test('a listed origin may call', async () => {
    const answer = await preflight('https://app.example')
    expect([answer.status, answer.headers.get('access-control-allow-origin')]).toEqual([204, 'https://app.example'])
    const response = await fetch(`${broker.url}/healthz`, { headers: { origin: 'https://app.example' } })
    expect(response.headers.get('access-control-allow-origin')).toBe('https://app.example')
  })

  test('another one gets no header', async () => {
    expect((await preflight('https://evil.example')).headers.get('access-control-allow-origin')).toBeNull()
    const response = await fetch(`${broker.url}/healthz`, { headers: { origin: 'https://evil.example' } })
    expect(response.headers.get('access-control-allow-origin')).toBeNull()
  })
})
