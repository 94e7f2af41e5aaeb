import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { brokerApi, dataplane, type Grant, request } from '../support/api.ts'
import { everything } from '../support/everything.ts'
import { connectTo, grantOf, type ServerRecord, serversApi } from '../support/mcp-servers.ts'
import { type Open, openCheckout } from '../support/open-checkout.ts'
import { API_KEY, type ProviderName, type Stack, startStack } from '../support/stack.ts'

/** MCP servers in sandboxes, used for real: published servers, the official client, a broker and an agent as programs. */
export const mcpServersSuite = (provider: ProviderName): void => {
  describe(`${provider}: MCP servers in a sandbox`, () => {
    let stack: Stack
    let servers: ReturnType<typeof serversApi>
    let checkout: Open
    beforeAll(async () => {
      checkout = openCheckout()
      const [a, b] = ['server-a', 'server-b'].map((name) => everything(provider, checkout.path, name))
      stack = await startStack({ provider, config: { mcp_servers: [a, b] } })
      servers = serversApi(stack)
    })
    afterAll(async () => {
      await stack?.[Symbol.asyncDispose]()
      checkout?.close()
    })

    test('[0-40, 0-41, 0-42, 0-43, 0-44] two configured servers run from the start: one sandbox, two processes, each in its directory', async () => {
      const [a, b] = [await servers.connected('server-a'), await servers.connected('server-b')]
      expect(a.box_session_id).toMatch(/^mcp-pipeline-p1-[0-9a-f]{12}$/)
      expect(b).toMatchObject({ box_session_id: a.box_session_id, session_id: a.session_id })
      const grant = await grantOf(stack, a)
      expect(grant.session_id).toBe(a.session_id)
      const { processes } = (await dataplane(grant, 'GET', '/processes')).body as { processes: Record<string, unknown>[] }
      const told = processes.map(({ process_id, status, cwd }) => ({ process_id, status, cwd }))
      expect(told.sort((one, other) => (String(one.process_id) < String(other.process_id) ? -1 : 1))).toEqual([
        { process_id: 'server-a', status: 'running', cwd: '/workspace/.mcp/server-a' },
        { process_id: 'server-b', status: 'running', cwd: '/workspace/.mcp/server-b' },
      ])
    })

    test('[2-80, 2-94, 2-97] what is told of a server: its tools, that it is boxed, and nothing of its environment', async () => {
      const record = await servers.connected('server-a')
      expect(record).toMatchObject({ status: 'connected', error_message: null, error_phase: null, retry_count: 0, box_enabled: true })
      expect(record.isolation).toBe(provider === 'docker' ? 'container' : 'bubblewrap')
      expect(record.tool_count).toBe(record.tools.length)
      expect(record.tools.map(({ name }) => name)).toContain('echo')
      const all = await servers.call('GET', '')
      expect(all.text).not.toContain('canary-of-the-environment')
      expect((all.body as { servers: ServerRecord[] }).servers.map(({ name }) => name)).toEqual(['server-a', 'server-b'])
    })

    test.each([['legacy'], ['modern']])('[2-95] the official client calls its tools over streamable HTTP, %s revision', async (era) => {
      const record = await servers.connected('server-a')
      const { token } = await grantOf(stack, record)
      const client = await connectTo(record.url, token, era === 'modern')
      expect((await client.listTools()).tools.length).toBe(record.tool_count)
      expect(await client.callTool({ name: 'echo', arguments: { message: 'from outside' } })).toMatchObject({
        content: [{ type: 'text', text: expect.stringContaining('from outside') }],
      })
      expect((await client.listPrompts()).prompts.length).toBeGreaterThan(0)
      expect((await client.listResources()).resources.length).toBeGreaterThan(0)
      const [a, b] = await Promise.all([1, 2].map((n) => client.callTool({ name: 'get-sum', arguments: { a: n, b: 40 } })))
      expect(JSON.stringify([a, b])).toMatch(/41.*42/)
      await client.close()
    })

    test('[2-95, C-04] an endpoint is for tokens of its session that may exec, and for nothing else', async () => {
      const record = await servers.connected('server-a')
      const { token } = await grantOf(stack, record)
      const api = brokerApi(stack.brokerUrl)
      const other = await api.ensure('another-thread')
      const initialize = (url: string, headers: Record<string, string>) =>
        request(url, {
          method: 'POST',
          headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers },
          body: JSON.stringify({
            ...{ jsonrpc: '2.0', id: 1, method: 'initialize' },
            params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
          }),
        })
      const status = async (url: string, headers: Record<string, string>) => {
        const reply = await initialize(url, headers)
        return [reply.status, (reply.body as { error?: { code?: string } } | undefined)?.error?.code]
      }
      const bearer = (text: string) => ({ authorization: `Bearer ${text}` })
      expect((await initialize(record.url, bearer(token))).status).toBe(200)
      expect(await status(record.url, {})).toEqual([401, 'UNAUTHENTICATED'])
      expect(await status(record.url, bearer(API_KEY))).toEqual([401, 'UNAUTHENTICATED'])
      expect(await status(record.url, bearer(`${token.slice(0, -4)}AAAA`))).toEqual([401, 'UNAUTHENTICATED'])
      expect(await status(record.url, bearer(other.token))).toEqual([403, 'FORBIDDEN'])
      expect(await status(record.url.replace('server-a', 'no-such'), bearer(token))).toEqual([403, 'FORBIDDEN'])
      const narrow = await api.negotiate({ thread_id: record.box_session_id, mode: 'get', requested_capabilities: ['fs_read'] })
      expect(narrow.status, narrow.text).toBe(200)
      expect(await status(record.url, bearer((narrow.body as Grant).token))).toEqual([403, 'CAPABILITY_DENIED'])
      // Asking for less takes nothing from another token.
      expect((await initialize(record.url, bearer(token))).status).toBe(200)
      const wide = await api.negotiate({
        thread_id: record.box_session_id,
        mode: 'get',
        capabilities: ['exec', 'shell', 'fs_read', 'fs_write'],
      })
      expect((await initialize(record.url, bearer((wide.body as Grant).token))).status).toBe(200)
    })

    test('[2-95, C-04] servers are the operators\u2019: users see how they are, other tenants nothing', async () => {
      const key = async (fields: Record<string, unknown>) => {
        const reply = await request(`${stack.brokerUrl}/v1/keys`, {
          method: 'POST',
          headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' },
          body: JSON.stringify({ name: 'k', ...fields }),
        })
        return (reply.body as { key: string }).key
      }
      const [user, stranger] = [await key({ principal: 'u' }), await key({ principal: 's', tenant: 'other', role: 'operator' })]
      expect((await servers.call('GET', '/server-a', undefined, user)).body).toMatchObject({ status: 'connected' })
      expect((await servers.call('POST', '', everything(provider, checkout.path, 'mine'), user)).status).toBe(403)
      expect((await servers.call('DELETE', '/server-a', undefined, user)).status).toBe(403)
      expect((await servers.call('GET', '', undefined, stranger)).body).toEqual({ servers: [] })
      expect((await servers.call('GET', '/server-a', undefined, stranger)).status).toBe(404)
      expect((await servers.call('POST', '', everything(provider, checkout.path, 'mine'), stranger)).status).toBe(403)
      // What the settings name stays; another server of a name that is taken is not let in.
      expect((await servers.call('DELETE', '/server-a')).status).toBe(409)
      expect((await servers.call('POST', '', everything(provider, checkout.path, 'server-a', { args: [] }))).status).toBe(409)
      expect((await servers.call('POST', '', everything(provider, checkout.path, 'server-a'))).status).toBe(200)
    })
  })
}
