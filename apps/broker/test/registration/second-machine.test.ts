import type { RegisterAgentRequest } from '@boxoffice/protocol'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { askChallenge, newAgentKey, proofBy, registrationOf } from '../support/agent-key.ts'
import { json, startServer } from '../support/server.ts'
import { startTestBroker, type TestBroker } from '../support/test-broker.ts'

let broker: TestBroker
beforeEach(async () => {
  broker = await startTestBroker({ agentTimeout: 600 })
})
afterEach(() => broker.stop())

const INSTALL = 'install-of-this-test'
const FIRST = '111111111111'
const SECOND = '222222222222'
const NOBODY = 'http://127.0.0.1:9'
const key = newAgentKey()

type Registered = { status: number; body: { agent_id: string; agent_token: string; error?: { details?: { reason: string } } } }
const register = async (fields: Partial<RegisterAgentRequest>, by: typeof key | null = key): Promise<Registered> => {
  const request = registrationOf({ install_id: INSTALL, ...fields })
  const proof = by === null ? undefined : proofBy(by, await askChallenge(broker.url, broker.enrollToken), request)
  return broker.as(broker.enrollToken).post('/v1/agents/register', { ...request, ...(proof === undefined ? {} : { proof }) })
}
const outcome = ({ status, body }: Registered) => (body.error === undefined ? status : `${status} ${body.error.details?.reason}`)

/** The control listener of a machine; with an instance id it says that it is that instance of the install. */
const machine = async (answers: { instance: string } | { status: number }): Promise<string> => {
  const server = await startServer((_, response) => {
    if ('status' in answers) json(response, answers.status, { error: { code: answers.status === 401 ? 'UNAUTHENTICATED' : 'NOT_FOUND' } })
    else json(response, 200, { install_id: INSTALL, instance_id: answers.instance })
  })
  onTestFinished(() => server.close())
  return server.url
}

/** Whether the token is still that of the agent's registration. */
const isPresent = async ({ body: { agent_id, agent_token } }: Registered, instance: string): Promise<boolean> => {
  const { provider } = registrationOf({ install_id: INSTALL })
  const report = { instance_id: instance, provider, sandboxes: [], partial: true }
  return (await broker.as(agent_token).post(`/v1/agents/${agent_id}/heartbeat`, report)).status === 200
}

describe('[C-50] a copy of a data directory, with its key, on a second machine', () => {
  test('is refused as long as the first one answers as itself, however silent it was', async () => {
    const first = await register({ instance_id: FIRST, control_url: await machine({ instance: FIRST }) })
    const there = await machine({ instance: SECOND })
    expect(outcome(await register({ instance_id: SECOND, control_url: there }))).toBe('409 agent_elsewhere')
    await broker.advance(700_000)
    expect(outcome(await register({ instance_id: SECOND, control_url: there }))).toBe('409 agent_elsewhere')
    expect(await isPresent(first, FIRST)).toBe(true)
  })

  test('takes over at once when nobody listens there, or somebody else does', async () => {
    const first = await register({ instance_id: FIRST, control_url: NOBODY })
    const second = await register({ instance_id: SECOND, control_url: await machine({ instance: '333333333333' }) })
    expect([second.status, second.body.agent_id]).toEqual([200, first.body.agent_id])
    expect([await isPresent(first, FIRST), await isPresent(second, SECOND)]).toEqual([false, true])
    expect(outcome(await register({ instance_id: FIRST, control_url: NOBODY }))).toBe(200)
  })

  test.each([404, 401, 500])('takes over after a silence when the first one answers %s', async (status) => {
    const first = await register({ instance_id: FIRST, control_url: await machine({ status }) })
    const second = { instance_id: SECOND, control_url: await machine({ instance: SECOND }) }
    expect(outcome(await register(second))).toBe('409 agent_elsewhere')
    await broker.advance(300_000)
    expect(await isPresent(first, FIRST)).toBe(true)
    await broker.advance(301_000)
    expect(outcome(await register(second))).toBe('409 agent_elsewhere')
    await broker.advance(600_001)
    expect(outcome(await register(second))).toBe(200)
  })
})

describe('[C-50] a restart', () => {
  test('registers at once on the same port, where the new process takes no control token yet, or answers itself', async () => {
    const unregistered = await machine({ status: 401 })
    await register({ instance_id: FIRST, control_url: unregistered })
    expect(outcome(await register({ instance_id: SECOND, control_url: unregistered }))).toBe(200)
    const answers = await machine({ instance: FIRST })
    await register({ instance_id: SECOND, control_url: answers })
    expect(outcome(await register({ instance_id: FIRST, control_url: answers }))).toBe(200)
  })

  test('is none when the same instance comes again: nobody is asked', async () => {
    const control_url = await machine({ instance: FIRST })
    for (const _ of [1, 2]) expect(outcome(await register({ instance_id: FIRST, control_url }))).toBe(200)
  })

  test('of which two come at once: one is taken, and the other one is told to come again', async () => {
    // It answers when it has been asked for both, so that each is judged by what was before the other.
    const asked = await startServer(async (_, response) => {
      await asked.got(2)
      json(response, 200, { install_id: INSTALL, instance_id: '444444444444' })
    })
    onTestFinished(() => asked.close())
    await register({ instance_id: FIRST, control_url: asked.url })
    const both = [SECOND, '333333333333'].map((instance_id) => register({ instance_id, control_url: NOBODY }))
    expect((await Promise.all(both)).map(({ status }) => status).sort()).toEqual([200, 409])
  })
})

describe('[C-50] an install of before, without a pinned key', () => {
  // Of before: it answers that there is no such route. With a forgotten key: it takes no token that does not name the key.
  test.each([404, 401])('does not go to another key while it is heard, also not under its own instance id and URL (%s)', async (status) => {
    const control_url = await machine({ status })
    const present = await register({ instance_id: FIRST, control_url }, null)
    for (const fields of [
      { instance_id: SECOND, control_url: await machine({ instance: SECOND }) },
      { instance_id: SECOND, control_url },
      { instance_id: FIRST, control_url },
    ])
      for (const by of [newAgentKey(), null]) expect(outcome(await register(fields, by))).toBe('409 agent_elsewhere')
    expect(await isPresent(present, FIRST)).toBe(true)
  })

  test('pins its key by the token of its present registration, and by no other one', async () => {
    const control_url = await machine({ status: 404 })
    const { body } = await register({ instance_id: FIRST, control_url }, null)
    expect(outcome(await register({ instance_id: FIRST, control_url, agent_token: 'bxa_guessed' }))).toBe('409 agent_elsewhere')
    expect(outcome(await register({ instance_id: FIRST, control_url, agent_token: body.agent_token }))).toBe(200)
    expect((await register({ instance_id: FIRST, control_url }, newAgentKey())).status).toBe(403)
  })

  test('pins its key after a silence, or at once when nobody listens any more', async () => {
    await register({ instance_id: FIRST, control_url: await machine({ status: 404 }) }, null)
    await broker.advance(600_001)
    expect(outcome(await register({ instance_id: SECOND, control_url: NOBODY }, null))).toBe(200)
    expect(outcome(await register({ instance_id: FIRST, control_url: NOBODY }))).toBe(200)
    expect((await register({ instance_id: SECOND, control_url: NOBODY }, newAgentKey())).status).toBe(403)
  })
})
