import { realpathSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { dataplane } from '../support/api.ts'
import { connectTo, grantOf, type ServerRecord, serversApi } from '../support/mcp-servers.ts'
import { ROOT } from '../support/program.ts'
import { type ProviderName, type Stack, startStack } from '../support/stack.ts'

const PROJECT = ROOT.replace(/\/$/, '')
const EVERYTHING = `${PROJECT}/node_modules/@modelcontextprotocol/server-everything/dist/index.js`

/** A published stdio server as an administrator configures it: its files are this checkout, shown read-only. */
const everything = (provider: ProviderName, name: string, fields: Record<string, unknown> = {}) => ({
  name,
  // The image has a Node of its own; what a local sandbox sees of this machine need not.
  command: provider === 'local' ? realpathSync(process.execPath) : 'node',
  args: [EVERYTHING, 'stdio'],
  env: { MCP_CANARY: 'canary-of-the-environment' },
  pipeline_uuid: 'p1',
  box: { host_path: PROJECT, network: 'off', memory_mb: 512, pids_limit: 256 },
  ...fields,
})

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
