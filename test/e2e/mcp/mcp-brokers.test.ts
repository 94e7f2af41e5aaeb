import { randomBytes } from 'node:crypto'
import type { Client } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { request } from '../support/api.ts'
import { everything } from '../support/everything.ts'
import { connectTo, grantOf, type ServerRecord, serversApi } from '../support/mcp-servers.ts'
import { type Open, openCheckout } from '../support/open-checkout.ts'
import { API_KEY, type Stack, startStack } from '../support/stack.ts'
import { eventually } from '../support/traces.ts'

/** How long a lease lasts in these stacks, in seconds. */
const LEASE = 3

describe('local: MCP servers of two brokers on PostgreSQL', () => {
  let stack: Stack
  let checkout: Open
  /** The routes of each broker. */
  let apis: ReturnType<typeof serversApi>[]
  const canary = `canary-${randomBytes(8).toString('hex')}`
  beforeAll(async () => {
    checkout = openCheckout()
    const settings = everything('local', checkout.path, 'configured', { env: { MCP_CANARY: canary } })
    const config = { mcp_servers: [settings], broker_timeout: LEASE, agent_timeout: 60, agent_lost_after: 600 }
    stack = await startStack({ provider: 'local', database: 'postgres', brokers: 2, config })
    apis = stack.brokerUrls.map((brokerUrl) => serversApi({ brokerUrl }))
  })
  afterAll(async () => {
    await stack?.[Symbol.asyncDispose]()
    checkout?.close()
  })

  /** What the database has of servers, as whoever reads it sees it. */
  const rows = async (): Promise<string> => {
    const { postgres } = stack
    if (postgres === undefined) return expect.fail('no PostgreSQL')
    const databases = await postgres.ask<{ datname: string }>("SELECT datname FROM pg_database WHERE datname LIKE 'boxoffice%'")
    const urls = databases.map(({ datname }) => postgres.url.replace(/[^/]*$/, datname))
    return JSON.stringify(await Promise.all(urls.map((url) => postgres.ask('SELECT * FROM mcp_servers', [], url))))
  }

  /** The endpoint at one broker, past the load balancer. */
  const at = (index: number, { url }: ServerRecord): string => url.replace(stack.brokerUrl, stack.brokerUrls[index] ?? '')
  const call = async (client: Client, message: string) => JSON.stringify(await client.callTool({ name: 'echo', arguments: { message } }))

  test('[0-44, 2-94] a server of the settings runs once, and each broker tells of it and answers for it', async () => {
    const records = await Promise.all(apis.map((api) => api.connected('configured')))
    expect(records[0]?.session_id).toBe(records[1]?.session_id)
    expect(records[0]?.tools).toEqual(records[1]?.tools)
    for (const [index, record] of records.entries()) {
      const { token } = await grantOf(stack, record)
      for (const modern of [false, true]) {
        const client = await connectTo(at(index, record), token, modern)
        expect((await client.listTools()).tools.length).toBe(record.tool_count)
        expect(await call(client, `to broker ${index}`)).toContain(`to broker ${index}`)
        await client.close()
      }
      // Progress and the end come through the other broker as well.
      const client = await connectTo(at(index, record), token)
      const progress: number[] = []
      await client.callTool(
        { name: 'trigger-long-running-operation', arguments: { duration: 1, steps: 4 } },
        { onprogress: ({ progress: done }) => void progress.push(done) },
      )
      // The official client drops a progress that comes in one piece with the result, as the last one may.
      expect(progress.slice(0, 3)).toEqual([1, 2, 3])
      await client.close()
      expect((await apis[index]?.call('GET', ''))?.text).not.toContain(canary)
    }
    const seen = await rows()
    expect(seen).toContain('configured')
    // Neither the environment nor the command line, nor where a broker is reached.
    for (const secret of [canary, checkout.path, ...stack.brokerUrls]) expect(seen).not.toContain(secret)
  })

  test('[2-95] what an endpoint refuses is refused by each broker, and the routes between brokers by all', async () => {
    const record = (await apis[0]?.connected('configured')) as ServerRecord
    const { token } = await grantOf(stack, record)
    const initialize = (url: string, bearer: string) =>
      request(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', authorization: `Bearer ${bearer}` },
        body: '{"jsonrpc":"2.0","id":1,"method":"ping"}',
      })
    for (const [index, url] of stack.brokerUrls.entries()) {
      expect((await initialize(at(index, record), API_KEY)).status).toBe(401)
      for (const credential of [API_KEY, token, `${token.slice(0, -4)}AAAA`]) {
        expect((await initialize(`${url}/internal/v1/mcp/servers/configured/mcp`, credential)).status).toBe(401)
        const headers = { authorization: `Bearer ${credential}` }
        for (const method of ['POST', 'DELETE'])
          expect((await request(`${url}/internal/v1/mcp/servers/configured`, { method, headers })).status).toBe(401)
      }
    }
  })

  test('one that is added at one broker is told of by the other, which ends it; of many that add it at once one does', {
    timeout: 400_000,
  }, async () => {
    const definition = everything('local', checkout.path, 'added', { pipeline_uuid: 'p2' })
    const replies = await Promise.all([0, 1, 0, 1].map((index) => apis[index]?.call('POST', '', definition)))
    expect(replies.map((reply) => reply?.status).toSorted()).toEqual([200, 200, 200, 201])
    const [one, other] = await Promise.all(apis.map((api) => api.connected('added')))
    expect(one).toEqual({ ...other, url: one?.url })
    for (const api of apis) {
      expect((await api.call('POST', '', { ...definition, args: [] })).status).toBe(409)
      expect((await api.call('DELETE', '/configured')).status).toBe(409)
    }
    // By the one that does not run it, whichever that is: by both, in turn.
    expect((await apis[1]?.call('DELETE', '/added'))?.status).toBe(204)
    for (const api of apis) expect((await api.call('GET', '/added')).status).toBe(404)
    expect((await apis[1]?.call('POST', '', definition))?.status).toBe(201)
    expect((await apis[0]?.call('DELETE', '/added'))?.status).toBe(204)
    for (const api of apis) expect((await api.call('GET', '/added')).status).toBe(404)
  })

  test(`the broker that runs a server is killed: the other one answers for it after its lease of ${LEASE} s, and so on`, {
    timeout: 600_000,
  }, async () => {
    const took: number[] = []
    for (const killed of [0, 1]) {
      await apis[1 - killed]?.connected('configured')
      await stack.broker(killed).kill('SIGKILL')
      const began = performance.now()
      const refusals: [number, string | null][] = []
      await eventually(
        'the other broker answers',
        async () => {
          const record = await apis[1 - killed]?.get('configured')
          if (record?.session_id == null) return false
          const { token } = await grantOf({ brokerUrl: stack.brokerUrls[1 - killed] ?? '' }, record)
          const reply = await fetch(at(1 - killed, record), {
            method: 'POST',
            headers: {
              'content-type': 'application/json',
              accept: 'application/json, text/event-stream',
              authorization: `Bearer ${token}`,
            },
            body: JSON.stringify({
              ...{ jsonrpc: '2.0', id: 1, method: 'initialize' },
              params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
            }),
          })
          await reply.text()
          if (reply.status !== 200) refusals.push([reply.status, reply.headers.get('retry-after')])
          return reply.status === 200
        },
        120_000,
      )
      took.push(Math.round(performance.now() - began))
      // Until then it says that it is away, and when to come again.
      for (const [status, retryAfter] of refusals) expect([status, Number(retryAfter) > 0]).toEqual([503, true])
      await stack.startBroker(killed)
    }
    console.info({ lease: LEASE * 1000, took })
  })

  test('a broker that ends lets go: the other one has its servers without a lease to wait for', { timeout: 400_000 }, async () => {
    const before = (await apis[0]?.connected('configured')) as ServerRecord
    await stack.broker(0).stop()
    const record = (await apis[1]?.connected('configured')) as ServerRecord
    expect(record.session_id).toBe(before.session_id)
    const { token } = await grantOf({ brokerUrl: stack.brokerUrls[1] ?? '' }, record)
    const client = await connectTo(at(1, record), token)
    expect(await call(client, 'after')).toContain('after')
    await client.close()
    await stack.startBroker(0)
  })
})
