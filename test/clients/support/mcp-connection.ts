import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { expect } from 'vitest'
import { request } from '../../e2e/support/api.ts'
import type { Era } from '../../e2e/support/mcp.ts'
import { BOXOFFICE } from '../../e2e/support/program.ts'
import { API_KEY } from '../../e2e/support/stack.ts'

/** How a host comes to the tools, and with which revision of MCP. */
export type Way = { transport: 'http' | 'stdio'; era: Era }
export const WAYS: readonly Way[] = (['http', 'stdio'] as const).flatMap((transport) =>
  (['legacy', 'modern'] as const).map((era) => ({ transport, era })),
)

export type Connection = {
  client: Client
  /** A tool's answer, which must not be a refusal. */
  call<T = Record<string, unknown>>(name: string, args?: Record<string, unknown>): Promise<T>
  /** What a model reads of a refusal. */
  refused(name: string, args?: Record<string, unknown>): Promise<string>
  /** All that a model has read. */
  read: string[]
  close(): Promise<void>
}

type Asked = Way & { brokerUrl: string; thread?: string; key?: string }

export const connectMcp = async ({ transport, era, brokerUrl, thread, key = API_KEY }: Asked): Promise<Connection> => {
  const client = new Client(
    { name: 'test', version: '0.1.0' },
    { versionNegotiation: { mode: era === 'modern' ? { pin: '2026-07-28' } : 'legacy' } },
  )
  const headers = { authorization: `Bearer ${key}`, ...(thread === undefined ? {} : { 'x-boxoffice-thread': thread }) }
  const env = { PATH: process.env.PATH ?? '', BOXOFFICE_URL: brokerUrl, BOXOFFICE_API_KEY: key }
  await client.connect(
    transport === 'http'
      ? new StreamableHTTPClientTransport(new URL(`${brokerUrl}/mcp`), { requestInit: { headers } })
      : new StdioClientTransport({
          command: BOXOFFICE,
          args: ['mcp', ...(thread === undefined ? [] : ['--thread', thread])],
          env,
          stderr: 'inherit',
        }),
  )
  const read: string[] = []
  const ask = async (name: string, args: Record<string, unknown>) => {
    const { content, structuredContent, isError } = await client.callTool({ name, arguments: args })
    const text = content.map((part) => (part.type === 'text' ? part.text : expect.fail('not text'))).join('\n')
    read.push(text)
    return { text, structuredContent, isError: isError === true }
  }
  return {
    client,
    read,
    async call<T>(name: string, args = {}) {
      const { text, structuredContent, isError } = await ask(name, args)
      if (isError) expect.fail(`${name}: ${text}`)
      return structuredContent as T
    },
    async refused(name, args = {}) {
      const { text, isError } = await ask(name, args)
      expect(isError, text).toBe(true)
      return text
    },
    close: () => client.close(),
  }
}

/** A key of another tenant, or of another user of this one. */
export const createKey = async (brokerUrl: string, principal: string, tenant?: string): Promise<string> => {
  const reply = await request(`${brokerUrl}/v1/keys`, {
    method: 'POST',
    headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify({ name: principal, principal, rights: ['release'], ...(tenant === undefined ? {} : { tenant }) }),
  })
  expect(reply.status, reply.text).toBe(201)
  return (reply.body as { key: string }).key
}
