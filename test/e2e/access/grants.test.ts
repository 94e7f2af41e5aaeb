import { once } from 'node:events'
import { connect } from '@boxoffice/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { brokerApi, dataplane, type Grant, type Reply, request } from '../support/api.ts'
import { expectRefusal } from '../support/refusal.ts'
import { API_KEY, type Stack, startStack } from '../support/stack.ts'
import { eventually } from '../support/traces.ts'

type Frame = { type: string; data?: string; error?: { code: string } }

/** A shell over a plain WebSocket: what it was told, and how it ended. */
const openShell = async (grant: Grant) => {
  const socket = new WebSocket(`${grant.sandbox.ws_base_url}/shell/ws`, { headers: { authorization: `Bearer ${grant.token}` } })
  const frames: Frame[] = []
  let notify = () => {}
  socket.on('message', (text) => {
    frames.push(JSON.parse(String(text)) as Frame)
    notify()
  })
  const closed = once(socket, 'close').then(([code]) => code as number)
  const has = (found: (frame: Frame) => boolean) =>
    new Promise<void>((resolve) => {
      notify = () => frames.some(found) && resolve()
      notify()
    })
  await once(socket, 'open')
  socket.send(JSON.stringify({ type: 'start', cols: 80, rows: 24 }))
  await has(({ type }) => type === 'ready')
  return { frames, closed, send: (frame: object) => socket.send(JSON.stringify(frame)), has, close: () => socket.close() }
}

describe('local: what a session grants, from the negotiation to the sandbox', () => {
  let stack: Stack
  let broker: ReturnType<typeof brokerApi>
  beforeAll(async () => {
    stack = await startStack({
      provider: 'local',
      config: {
        profiles: [
          { name: 'no_exec', capabilities: ['fs_read', 'fs_write', 'shell'] },
          { name: 'brief', hard_ttl_seconds: 2 },
        ],
      },
    })
    broker = brokerApi(stack.brokerUrl)
  })
  afterAll(() => stack?.[Symbol.asyncDispose]())

  const ensure = async (thread: string, fields: object = {}, key = API_KEY) => {
    const { status, body, text } = await brokerApi(stack.brokerUrl, key).negotiate({ thread_id: thread, mode: 'ensure', ...fields })
    if (status !== 200) throw new Error(`${status} ${text}`)
    return body as Grant
  }
  const run = (grant: Grant): Promise<Reply> => dataplane(grant, 'POST', '/exec', { command: 'echo ok' })
  const list = (grant: Grant): Promise<Reply> => dataplane(grant, 'GET', '/files')
  const keyOf = async (principal: string) => {
    const made = await request(`${stack.brokerUrl}/v1/keys`, {
      method: 'POST',
      headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' },
      body: JSON.stringify({ name: principal, principal }),
    })
    return (made.body as { key: string }).key
  }

  test('[4-75] a policy without exec: the grant lacks it and POST /exec is refused', async () => {
    const grant = await ensure('no-exec', { profile: 'no_exec', requested_capabilities: ['fs_read', 'exec'] })
    expect((grant as Grant & { credentials: object }).credentials).toMatchObject({ granted_capabilities: ['fs_read'] })
    expectRefusal(await run(grant), 403, 'CAPABILITY_DENIED')
    expect((await list(grant)).status).toBe(200)
  })

  test('[C-57] a second client with the same key that asks for less: its token carries less, the first works on', async () => {
    const grant = await ensure('shared-key')
    const shell = await openShell(grant)
    const less = await ensure('shared-key', { requested_capabilities: ['fs_read'] })
    expectRefusal(await run(less), 403, 'CAPABILITY_DENIED')
    expect((await list(less)).status).toBe(200)
    expect((await run(grant)).status).toBe(200)
    shell.send({ type: 'stdin', data: 'echo is-$((40 + 2))\n' })
    await shell.has(({ type, data }) => type === 'stdout' && data?.includes('is-42') === true)
    shell.close()
    expect((await run(await ensure('shared-key'))).status).toBe(200)
  })

  test('[C-57, C-26, C-28] a member who is one no longer: its shell gets CAPABILITY_DENIED, 4403, its token opens nothing', async () => {
    await ensure('shared', { members: ['guest'] })
    const guest = await ensure('shared', {}, await keyOf('guest'))
    const shell = await openShell(guest)
    await ensure('shared', { members: [] })
    expect(await shell.closed).toBe(4403)
    expect(shell.frames.at(-1)).toMatchObject({ type: 'error', error: { code: 'CAPABILITY_DENIED' } })
    expect([401, 403]).toContain((await run(guest)).status)
  })

  test('[C-57] an agent that was away when a member was left out refuses its token when it is back', async () => {
    const grant = await ensure('away', { members: ['away-guest'] })
    const guest = await ensure('away', {}, await keyOf('away-guest'))
    expect((await run(guest)).status).toBe(200)
    await stack.agent().kill('SIGKILL')
    await ensure('away', { members: [] })
    await stack.startAgent()
    await eventually('the agent has its sandbox again', async () => (await list(grant)).status === 200)
    expectRefusal(await run(guest), 403, 'CAPABILITY_DENIED')
    expect((await run(grant)).status).toBe(200)
  })

  test('[4-70, 4-84] the SDK: a scope, an actor, what was granted, a heartbeat', async () => {
    using client = connect(stack.brokerUrl, { apiKey: API_KEY })
    const session = await client.session({
      scope: { type: 'workspace', id: 'sdk' },
      actor: { type: 'human', id: 'usr_1' },
      capabilities: ['exec', 'fs_read'],
    })
    expect([session.threadId, session.capabilities, session.warnings]).toEqual([null, ['fs_read', 'exec'], []])
    expect((await session.exec('echo ok')).stdout).toBe('ok\n')
    await expect(session.files.upload('f', 'x')).rejects.toMatchObject({ code: 'CAPABILITY_DENIED' })
    await session.refresh()
    expect((await session.exec('echo still')).stdout).toBe('still\n')
    const { binding, leaseExpiresAt } = await session.heartbeat()
    expect([binding.id, leaseExpiresAt.getTime() > Date.now()]).toEqual([session.id, true])
    await session.release()
  })

  describe('[2.5, C-11] the dataplane, by the state of the session', () => {
    test('never existed: 401 without a token, 403 with that of another session', async () => {
      const [mine, other] = [await ensure('d-mine'), await ensure('d-other')]
      expectRefusal(await request(`${mine.sandbox.http_base_url}/files`), 401, 'UNAUTHENTICATED')
      expectRefusal(await list({ ...mine, token: other.token }), 403, 'FORBIDDEN')
    })

    test('released: 401 SESSION_RELEASED', async () => {
      const grant = await ensure('d-released')
      await broker.release(grant.session_id)
      await eventually('the token is refused', async () => (await list(grant)).status === 401)
      expect(expectRefusal(await list(grant), 401, 'SESSION_RELEASED').message).toBeDefined()
    })

    test('past its hard TTL: 401', async () => {
      const grant = await ensure('d-brief', { profile: 'brief' })
      await eventually('the token is refused', async () => (await list(grant)).status === 401)
      expect((await list(grant)).body).toMatchObject({ error: { code: expect.stringMatching(/^(TOKEN_EXPIRED|SESSION_RELEASED)$/) } })
    })
  })
})
