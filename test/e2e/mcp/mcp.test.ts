import type { Client } from '@modelcontextprotocol/client'
import { ProtocolError } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { brokerApi, dataplane, type Grant, request } from '../support/api.ts'
import { connectHttp, connectStdio, type Era, type McpHttp, startMcpHttp } from '../support/mcp.ts'
import { API_KEY, type Stack, startStack } from '../support/stack.ts'

let stack: Stack
let http: McpHttp
/** Keys of two users of one tenant. */
let alice: string
let bob: string

const createKey = async (principal: string): Promise<string> => {
  const reply = await request(`${stack.brokerUrl}/v1/keys`, {
    method: 'POST',
    headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify({ name: principal, principal, rights: ['release'] }),
  })
  return (reply.body as { key: string }).key
}

beforeAll(async () => {
  stack = await startStack({ provider: 'local' })
  http = await startMcpHttp(stack.brokerUrl)
  alice = await createKey('alice')
  bob = await createKey('bob')
})
afterAll(async () => {
  await http[Symbol.asyncDispose]()
  await stack[Symbol.asyncDispose]()
})

const connectors = {
  http: (key: string | undefined, era: Era) => connectHttp(http.url, key, era),
  stdio: (key: string | undefined, era: Era) => connectStdio(stack.brokerUrl, key, era),
}

const Any = z.looseObject({})
const call = async (client: Client, method: string, params: Record<string, unknown>): Promise<Record<string, unknown>> =>
  await client.request({ method, params }, Any)

const refusal = async (work: Promise<unknown>): Promise<{ code: number; message: string; data: Record<string, unknown> }> => {
  const error = await work.then(
    () => expect.fail('was not refused'),
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof ProtocolError)) throw error
  return { code: error.code, message: error.message, data: error.data as Record<string, unknown> }
}

const refused = (code: number, name: string, message: RegExp) => ({
  code,
  message: expect.stringMatching(message),
  data: expect.objectContaining({
    error: expect.objectContaining({ code: name, retryable: false, request_id: expect.stringMatching(/^req_/) }),
    detail: expect.stringMatching(message),
  }),
})

describe.each([
  ['http', 'legacy'],
  ['http', 'modern'],
  ['stdio', 'legacy'],
  ['stdio', 'modern'],
] as const)('an MCP client over %s, %s revision', (transport, era) => {
  const thread = (name: string) => `mcp-${transport}-${era}-${name}`
  let client: Client

  beforeAll(async () => {
    client = await connectors[transport](alice, era)
  })
  afterAll(() => client.close())

  test('[4-173] acquires a sandbox that works, refreshes and releases it', async () => {
    const acquired = await call(client, 'environment/acquire', { thread_id: thread('all'), mode: 'ensure' })
    expect(acquired).toMatchObject({ thread_id: thread('all'), binding: { id: acquired.session_id, state: 'active' } })
    const grant = acquired as unknown as Grant
    expect(await dataplane(grant, 'POST', '/exec', { command: 'echo from mcp' })).toMatchObject({ body: { stdout: 'from mcp\n' } })
    const { session_id } = grant
    expect(await call(client, 'environment/acquire', { thread_id: thread('all'), mode: 'get' })).toMatchObject({ session_id })

    const refreshed = (await call(client, 'environment/refresh', { session_id })) as { token: string; expires_at: string }
    expect(refreshed.token).not.toBe(grant.token)
    expect(await dataplane({ ...grant, token: refreshed.token }, 'GET', '/execs')).toMatchObject({ status: 200 })

    const lease = (acquired as { binding: { lease_expires_at: string } }).binding.lease_expires_at
    const kept = (await call(client, 'environment/heartbeat', { session_id })) as { lease_expires_at: string }
    expect(kept).toMatchObject({ binding: { id: session_id, state: 'active' } })
    expect(Date.parse(kept.lease_expires_at)).toBeGreaterThanOrEqual(Date.parse(lease))
    expect(JSON.stringify(kept)).not.toMatch(TOKEN)

    const released = await call(client, 'environment/release', { session_id })
    const { _meta, resultType, ...fields } = released // what the 2026 revision adds to every result
    expect(fields).toEqual({})
    expect(await brokerApi(stack.brokerUrl).negotiate({ thread_id: thread('all'), mode: 'get' })).toMatchObject({ status: 404 })
    expect(await refusal(call(client, 'environment/release', { session_id }))).toMatchObject({ code: -31404 })
  })

  test('[4-173] negotiates in the full shape, too', async () => {
    const asked = { scope: { type: 'workspace', id: thread('w') }, mode: 'create_only', requested_capabilities: ['fs_read'] }
    const acquired = await call(client, 'environment/acquire', asked)
    expect(acquired).toMatchObject({
      thread_id: null,
      binding: { scope: asked.scope },
      credentials: { granted_capabilities: ['fs_read'] },
    })
    expect(await dataplane(acquired as unknown as Grant, 'POST', '/exec', { command: 'true' })).toMatchObject({ status: 403 })
    expect(await refusal(call(client, 'environment/acquire', asked))).toEqual(refused(-31409, 'BINDING_CONFLICT', /./))
    await call(client, 'environment/release', { session_id: acquired.session_id })
  })

  test('[4-173] is refused with the envelope in data.error', async () => {
    // The names of each route as it has them [C-45].
    const notFound = refused(-31404, 'SESSION_NOT_FOUND', /./)
    const heartbeat = call(client, 'environment/heartbeat', { session_id: 'ssn_00000000-0000-4000-8000-000000000000' })
    expect(await refusal(heartbeat)).toEqual(refused(-31404, 'BINDING_NOT_FOUND', /./))
    expect(await refusal(call(client, 'environment/acquire', { thread_id: thread('none'), mode: 'get' }))).toEqual(notFound)
    for (const method of ['refresh', 'release']) {
      const unknown = call(client, `environment/${method}`, { session_id: 'ssn_00000000-0000-4000-8000-000000000000' })
      expect(await refusal(unknown), method).toEqual(notFound)
    }
    expect(await refusal(call(client, 'environment/acquire', { thread_id: thread('p'), mode: 'ensure', profile: 'nope' }))).toEqual(
      refused(-32602, 'INVALID_REQUEST', /profile: /),
    )
  })

  test.each([
    ['acquire', { mode: 'ensure' }, /thread_id: /],
    ['acquire', { thread_id: 't1', scope: { type: 'thread', id: 't2' }, mode: 'get' }, /scope: /],
    ['heartbeat', {}, /session_id: is required/],
    ['acquire', { thread_id: 't1' }, /mode: /],
    ['acquire', { thread_id: 't1', mode: 'x' }, /mode: /],
    ['acquire', { thread_id: ' t', mode: 'get' }, /thread_id: /],
    ['acquire', { thread_id: 't1', mode: 'ensure', wait_seconds: 61 }, /wait_seconds: must be at most 60/],
    ['refresh', {}, /session_id: is required/],
    ['release', { session_id: 7 }, /session_id: must be a string/],
    ['release', { session_id: 'ssn_1', keep_workspace: 'yes' }, /keep_workspace: must be a boolean/],
  ])('[4-173] is told which of its params is wrong: %s %j', async (method, params, message) => {
    expect(await refusal(call(client, `environment/${method}`, params))).toEqual(refused(-32602, 'INVALID_REQUEST', message))
  })

  test('[4-173] is not served without a credential, or with a wrong one', async () => {
    for (const key of [undefined, 'bxo_wrong']) {
      await using stranger = await connectors[transport](key, era).then((client) => ({
        client,
        [Symbol.asyncDispose]: () => client.close(),
      }))
      const error = await refusal(call(stranger.client, 'environment/acquire', { thread_id: thread('stranger'), mode: 'ensure' }))
      expect(error).toEqual(refused(-31401, 'UNAUTHENTICATED', /./))
      expect(JSON.stringify(error)).not.toContain('bxo_wrong')
    }
  })

  test('[C-73] has the same as tools, whose text never holds a token', async () => {
    const { tools } = await client.listTools()
    expect(tools.map(({ name }) => name).sort()).toEqual([
      'environment_acquire',
      'environment_heartbeat',
      'environment_refresh',
      'environment_release',
    ])
    const tool = async (name: string, args: Record<string, unknown>) => {
      const { content, structuredContent, isError } = await client.callTool({ name, arguments: args })
      const text = content.map((part) => (part.type === 'text' ? part.text : expect.fail('not text'))).join('\n')
      expect(text).not.toMatch(TOKEN)
      return { text, structuredContent: structuredContent as Record<string, unknown>, isError: isError === true }
    }
    const asked = { thread_id: thread('tools'), mode: 'ensure' }
    const bare = await tool('environment_acquire', asked)
    expect(JSON.stringify(bare)).not.toMatch(TOKEN)
    const { session_id } = bare.structuredContent
    expect(bare.text).toContain(session_id)
    expect(bare.structuredContent).toMatchObject({ binding: { state: 'active' }, credentials: { granted_capabilities: expect.any(Array) } })
    const full = await tool('environment_acquire', { ...asked, include_token: true })
    expect(full.structuredContent).toMatchObject({
      session_id,
      token: expect.stringMatching(TOKEN),
      credentials: { access_token: expect.stringMatching(TOKEN) },
    })
    expect(await dataplane(full.structuredContent as Grant, 'GET', '/execs')).toMatchObject({ status: 200 })

    expect(JSON.stringify(await tool('environment_refresh', { session_id }))).not.toMatch(TOKEN)
    const refreshed = await tool('environment_refresh', { session_id, include_token: true })
    expect(refreshed.structuredContent).toEqual({ session_id, expires_at: expect.any(String), token: expect.stringMatching(TOKEN) })

    const kept = await tool('environment_heartbeat', { session_id })
    expect(kept.structuredContent).toMatchObject({ binding: { id: session_id }, lease_expires_at: expect.any(String) })
    expect(JSON.stringify(kept)).not.toMatch(TOKEN)

    expect(await tool('environment_release', { session_id })).toMatchObject({ structuredContent: { session_id, released: true } })
    expect(await tool('environment_release', { session_id })).toMatchObject({
      isError: true,
      text: expect.stringMatching(/^SESSION_NOT_FOUND: /),
    })
    expect(await tool('environment_acquire', { mode: 'ensure' })).toMatchObject({
      isError: true,
      text: expect.stringContaining('thread_id'),
    })
  })
})

test('[4-173] callers of one MCP server on HTTP have their own threads: it asks the broker with the credential of each', async () => {
  const [a, b] = [await connectHttp(http.url, alice, 'modern'), await connectHttp(http.url, bob, 'modern')]
  const params = { thread_id: 'mcp-of-alice', mode: 'ensure' }
  const { session_id } = await call(a, 'environment/acquire', params)
  for (const [method, fields] of [
    ['acquire', params],
    ['refresh', { session_id }],
    ['heartbeat', { session_id }],
    ['release', { session_id }],
  ] as const) {
    expect(await refusal(call(b, `environment/${method}`, fields)), method).toEqual(refused(-31403, 'FORBIDDEN', /./))
  }
  await call(a, 'environment/release', { session_id })
  await Promise.all([a.close(), b.close()])
})

/** A compact JWT, wherever it may be. */
const TOKEN = /eyJ[\w-]+\.[\w-]+\.[\w-]+/
