import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Validator } from '@seriousme/openapi-schema-validator'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestBroker, type TestBroker } from '../../support/test-broker.ts'

type Content = Record<string, { schema: object }>
type Operation = { requestBody?: { content: Content }; responses: Record<string, { content?: Content }> }
type Document = { paths: Record<string, Record<string, Operation>> }
type Exchange = { method: string; path: string; sent: unknown; status: number; answer: unknown }

const SOURCE = join(import.meta.dirname, '../../../src/surfaces')
const JSON_TYPE = 'application/json'

let broker: TestBroker
let document: Document
/** What has gone over the wire as JSON: of this test, and of the agent that it starts. */
const exchanges: Exchange[] = []
const { fetch: realFetch } = globalThis

const recordingFetch: typeof fetch = async (input, init) => {
  const response = await realFetch(input, init)
  const url = new URL(input instanceof Request ? input.url : input)
  if (response.status !== 204 && !response.headers.get('content-type')?.startsWith(JSON_TYPE)) return response
  exchanges.push({
    ...{ method: (init?.method ?? 'GET').toLowerCase(), path: url.pathname, status: response.status },
    sent: typeof init?.body === 'string' ? JSON.parse(init.body) : undefined,
    answer: response.status === 204 ? undefined : await response.clone().json(),
  })
  return response
}

beforeAll(async () => {
  globalThis.fetch = recordingFetch
  broker = await startTestBroker({ compat: { box: true, sbs: true } })
  document = (await broker.get<Document>('/openapi.json')).body
})
afterAll(async () => {
  globalThis.fetch = realFetch
  await broker.stop()
})

const operations = (): [path: string, method: string, operation: Operation][] =>
  Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): [string, string, Operation] => [path, method, operation]),
  )

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
    const described = operations().filter(([path]) => path !== '/v1/mcp/servers/{name}/mcp')
    expect(defined.length).toBeGreaterThan(30)
    expect(described.map(([, method]) => method).sort()).toEqual(defined.sort())
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
  const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true }).addSchema(document, 'api')
  const failures: unknown[] = []
  const check = (pointer: string[], value: unknown, what: string): void => {
    const validate = ajv.compile({
      $ref: `api#/${pointer.map((part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/')}`,
    })
    if (!validate(value)) failures.push({ what, errors: ajv.errorsText(validate.errors), value })
  }
  const seen = new Set<string>()
  for (const { method, path, sent, status, answer } of exchanges) {
    const found = operations().find(([template, verb]) => verb === method && patternOf(template).test(path))
    if (found === undefined) continue
    const [template, verb, { requestBody, responses }] = found
    const at = ['paths', template, verb]
    const key = status in responses ? String(status) : 'default'
    const what = `${verb} ${template} ${status}`
    if (status < 400) {
      expect(key, what).toBe(String(status))
      seen.add(`${verb} ${template}`)
    }
    if (status < 400 && sent !== undefined && requestBody !== undefined)
      check([...at, 'requestBody', 'content', JSON_TYPE, 'schema'], sent, `body of ${what}`)
    if (responses[key]?.content?.[JSON_TYPE] === undefined) expect(answer, what).toBeUndefined()
    else check([...at, 'responses', key, 'content', JSON_TYPE, 'schema'], answer, what)
  }
  expect(failures).toEqual([])
  // The others answer text, a stream, or what an MCP server says.
  const others = ['get /v1/sandbox/sessions/{id}/events', 'get /metrics', 'get /docs', 'post /v1/mcp/servers/{name}/mcp']
  const unseen = operations()
    .map(([path, method]) => `${method} ${path}`)
    .filter((name) => !seen.has(name))
  expect(unseen.sort()).toEqual(others.sort())
})

const patternOf = (template: string): RegExp => new RegExp(`^${template.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}$`)

/** Calls every operation, and has some of them refused. */
async function useEverything(): Promise<void> {
  await broker.get('/readyz')
  const agent = await broker.startAgent()
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
  for (const path of ['/healthz', '/readyz', '/.well-known/jwks.json', '/openapi.json', '/nowhere']) await broker.get(path)
  await ok(broker.release(id))
  await broker.read(id)
  await ok(broker.delete('/v1/sandbox/threads/all'))
  await ok(broker.post(`/v1/agents/${agent.id}/rekey`))
  await ok(broker.post('/v1/signing-keys/rotate', {}))
}
