import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { expect } from 'vitest'
import { brokerApi, type Grant, request } from './api.ts'
import { API_KEY, type Stack } from './stack.ts'
import { eventually } from './traces.ts'

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
  warnings: string[]
  session_id: string | null
  url: string
}

/** The routes of MCP servers, as an operator calls them. */
export const serversApi = (stack: Pick<Stack, 'brokerUrl'>) => {
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
export const grantOf = async (stack: Pick<Stack, 'brokerUrl'>, { box_session_id }: ServerRecord): Promise<Grant> => {
  const reply = await brokerApi(stack.brokerUrl).negotiate({ thread_id: box_session_id, mode: 'get' })
  expect(reply.status, reply.text).toBe(200)
  return reply.body as Grant
}

export const connectTo = async (url: string, token: string, modern = false): Promise<Client> => {
  const client = new Client({ name: 'test', version: '0.1.0' }, { versionNegotiation: { mode: modern ? { pin: '2026-07-28' } : 'legacy' } })
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { authorization: `Bearer ${token}` } } }))
  return client
}
