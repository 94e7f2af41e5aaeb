import { realpathSync } from 'node:fs'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { brokerApi, dataplane, type Grant, request } from '../support/api.ts'
import { ROOT } from '../support/program.ts'
import { API_KEY, type ProviderName, type Stack, startStack } from '../support/stack.ts'
import { eventually } from '../support/traces.ts'

export type ServerRecord = {
  name: string
  status: string
  error_phase: string | null
  error_message: string | null
  retry_count: number
  tool_count: number
  tools: { name: string }[]
  box_session_id: string
  box_enabled: boolean
  isolation: string | null
  session_id: string | null
  url: string
}

const PROJECT = ROOT.replace(/\/$/, '')
const EVERYTHING = `${PROJECT}/node_modules/@modelcontextprotocol/server-everything/dist/index.js`

/** A published stdio server as an administrator configures it: its files are this checkout, shown read-only. */
export const everything = (provider: ProviderName, name: string, fields: Record<string, unknown> = {}) => ({
  name,
  // The image has a Node of its own; what a local sandbox sees of this machine need not.
  command: provider === 'local' ? realpathSync(process.execPath) : 'node',
  args: [EVERYTHING, 'stdio'],
  env: { MCP_CANARY: 'canary-of-the-environment' },
  pipeline_uuid: 'p1',
  box: { host_path: PROJECT, network: 'off', memory_mb: 512, pids_limit: 256 },
  ...fields,
})

/** The routes of MCP servers, as an operator calls them. */
export const serversApi = (stack: Stack) => {
  const call = (method: string, path: string, body?: unknown, key = API_KEY) =>
    request(`${stack.brokerUrl}/v1/mcp/servers${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, prefer: 'wait=60', ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  const get = async (name: string) => (await call('GET', `/${name}`)).body as ServerRecord
  return {
    call,
    get,
    async connected(name: string): Promise<ServerRecord> {
      let record = await get(name)
      await eventually(
        `${name} is connected`,
        async () => {
          record = await get(name)
          if (record.status === 'error') throw new Error(JSON.stringify(record))
          return record.status === 'connected'
        },
        60_000,
      )
      return record
    },
  }
}

/** A token of the server's session, as its operator gets it. */
export const grantOf = async (stack: Stack, { box_session_id }: ServerRecord): Promise<Grant> => {
  const reply = await brokerApi(stack.brokerUrl).negotiate({ thread_id: box_session_id, mode: 'get' })
  expect(reply.status, reply.text).toBe(200)
  return reply.body as Grant
}

export const connectTo = async (url: string, token: string, modern = false): Promise<Client> => {
  const client = new Client(
    { name: 'test', version: '0.1.0' },
    { versionNegotiation: { mode: modern ? { pin: '2026-07-28' } : 'legacy' } },
  )
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { authorization: `Bearer ${token}` } } }))
  return client
}

/** MCP servers in sandboxes, used for real: published servers, the official client, a broker and an agent as programs. */
export const mcpServersSuite = (provider: ProviderName): void => {
  describe(`${provider}: MCP servers in a sandbox`, () => {
    let stack: Stack
    let servers: ReturnType<typeof serversApi>
    beforeAll(async () => {
      stack = await startStack({
        provider,
        config: { mcp_servers: [everything(provider, 'server-a'), everything(provider, 'server-b')] },
      })
      servers = serversApi(stack)
    })
    afterAll(() => stack?.[Symbol.asyncDispose]())

    test('[0-40, 0-41, 0-42, 0-43, 0-44] two configured servers run from the start: one sandbox, two processes, each in its directory', async () => {
      const [a, b] = [await servers.connected('server-a'), await servers.connected('server-b')]
      expect(a.box_session_id).toMatch(/^mcp-pipeline-p1-[0-9a-f]{12}$/)
      expect(b).toMatchObject({ box_session_id: a.box_session_id, session_id: a.session_id })
      const grant = await grantOf(stack, a)
      expect(grant.session_id).toBe(a.session_id)
      const { processes } = (await dataplane(grant, 'GET', '/processes')).body as { processes: Record<string, unknown>[] }
      expect(processes.map(({ process_id, status, cwd }) => ({ process_id, status, cwd }))).toEqual([
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
  })
}
