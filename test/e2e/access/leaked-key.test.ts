import { createPrivateKey, randomUUID, sign } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { connect } from '@boxoffice/client'
import { describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { eventually } from '../../../apps/agent/test/support/eventually.ts'
import { startTestBroker, type TestBroker } from '../../../apps/broker/test/support/test-broker.ts'
import { dataplane, type Grant } from '../support/api.ts'
import { startProxy } from '../support/proxy.ts'
import { MODES, type Mode } from '../support/stack.ts'
import { startAgent } from '../support/started-agent.ts'

/** Signs as whoever has read the broker's data directory would. */
const thief = (dataDir: string): ((token: string) => string) => {
  const [file = ''] = readdirSync(join(dataDir, 'keys'))
  const { kid, private: jwk } = JSON.parse(readFileSync(join(dataDir, 'keys', file), 'utf8'))
  const key = createPrivateKey({ key: jwk, format: 'jwk' })
  const encoded = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  return (token) => {
    const claims = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())
    const text = `${encoded({ alg: 'EdDSA', kid, typ: 'JWT' })}.${encoded({ ...claims, jti: randomUUID() })}`
    return `${text}.${sign(null, Buffer.from(text), key).toString('base64url')}`
  }
}

const RELAY = { direct: 'never', relay: 'always' } as const
const ensure = (broker: TestBroker, thread: string, mode: Mode): Promise<Grant> =>
  broker.ensure(thread, { relay: RELAY[mode] }) as unknown as Promise<Grant>

/** `200`, or the status and code of the refusal. */
const answerTo = async (grant: Grant, token: string): Promise<string> => {
  const { status, body } = await dataplane({ ...grant, token }, 'GET', '/execs')
  return status === 200 ? '200' : `${status} ${(body as { error: { code: string } }).error.code}`
}

const rotateNow = async (broker: TestBroker) => {
  const { status, body } = await broker.post<Record<string, unknown>>('/v1/signing-keys/rotate', { now: true })
  expect(status).toBe(200)
  return body
}

describe.each(MODES)('[C-49] a leaked key, %s', (mode) => {
  test('is refused by agent and relay when the rotation has answered; sockets close with 4401, and the SDK goes on', async () => {
    await using parts = new AsyncDisposableStack()
    // No report within the test: what the agent knows, it was told by the push.
    const broker = await startTestBroker({ agentHeartbeat: 3600, agentTimeout: 3600, agentLostAfter: 3600 })
    parts.defer(() => broker.stop())
    const agent = parts.use(await startAgent({ brokerUrl: broker.url, enrollToken: broker.enrollToken }))
    const client = parts.use(connect(broker.url, { apiKey: broker.key }))
    const session = await client.session('t', { relay: RELAY[mode] })
    const run = await session.exec.start('cat')
    await run.stdin.write('before ')
    const grant = await ensure(broker, 't', mode)
    const forge = thief(broker.dataDir)
    const forged = forge(grant.token)
    expect(await answerTo(grant, forged)).toBe('200')

    const socket = new WebSocket(`${grant.sandbox.ws_base_url}/exec/ws`, { headers: { authorization: `Bearer ${forged}` } })
    const frames: string[] = []
    socket.on('message', (data) => frames.push(String(data)))
    await once(socket, 'message')
    const closed = once(socket, 'close')

    expect(await rotateNow(broker)).toMatchObject({ agents_told: 1, agents_not_reached: [], withdrawn: [expect.any(String)] })
    for (const token of [forged, forge(grant.token), grant.token]) expect(await answerTo(grant, token)).toBe('401 TOKEN_EXPIRED')
    expect((await closed)[0]).toBe(4401)
    expect(JSON.parse(frames.at(-1) ?? '{}')).toMatchObject({ type: 'error', error: { code: 'TOKEN_EXPIRED' } })

    await run.stdin.write('after')
    await run.stdin.end()
    expect(await run.text()).toBe('before after')
    expect((await run.exit).exitCode).toBe(0)
    expect((await session.exec('echo on')).stdout).toBe('on\n')
    expect(await answerTo(grant, (await ensure(broker, 't', mode)).token)).toBe('200')
    // Kept: the agent must not believe the old key again after a restart, when its broker may be away.
    const trust = readFileSync(join(agent.dataDir, 'broker-trust.json'), 'utf8')
    expect(JSON.parse(trust).jwks.keys).toHaveLength(1)
  })
})

test('[C-49] an agent that the push does not reach hears of a leaked key with the answer to its next report; the relay knows at once', async () => {
  await using parts = new AsyncDisposableStack()
  const broker = await startTestBroker({ agentHeartbeat: 0.2 })
  parts.defer(() => broker.stop())
  const proxy = await startProxy()
  parts.defer(() => proxy.close())
  const agent = parts.use(
    await startAgent({ brokerUrl: broker.url, enrollToken: broker.enrollToken, controlUrl: `http://127.0.0.1:${proxy.port}` }),
  )
  proxy.setTarget(Number(new URL(agent.controlUrl).port))
  const direct = await ensure(broker, 't', 'direct')
  const relayed = await ensure(broker, 't', 'relay')
  const forged = thief(broker.dataDir)(direct.token)
  expect([await answerTo(direct, forged), await answerTo(relayed, forged)]).toEqual(['200', '200'])

  await proxy.block()
  expect(await rotateNow(broker)).toMatchObject({ agents_told: 0, agents_not_reached: [agent.agentId] })
  expect(await answerTo(relayed, forged)).toBe('401 TOKEN_EXPIRED')
  await eventually(async () => expect(await answerTo(direct, forged)).toBe('401 TOKEN_EXPIRED'))
  await proxy.unblock()
  expect(await answerTo(direct, (await ensure(broker, 't', 'direct')).token)).toBe('200')
})

test('[C-49] only operators of the root tenant rotate', async () => {
  await using parts = new AsyncDisposableStack()
  const broker = await startTestBroker()
  parts.defer(() => broker.stop())
  const others = [await broker.principal('user'), await broker.principal('other', { tenant: 'other', role: 'operator' })]
  for (const one of others) expect((await one.post('/v1/signing-keys/rotate', { now: true })).status).toBe(403)
})
