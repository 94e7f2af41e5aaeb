import { Profile } from '@boxoffice/protocol'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { workspaceIdOf } from '../../src/domain/scope.ts'
import type { FakeAgent } from '../support/fake-agent.ts'
import { gate, startTestBroker, type TestBroker } from '../support/test-broker.ts'

const WORKSPACE = workspaceIdOf('default', { type: 'thread', id: 't' })
const REMOVAL = `DELETE /control/v1/workspaces/${WORKSPACE}`

let broker: TestBroker
let agent: FakeAgent

beforeEach(async () => {
  broker = await startTestBroker({ profiles: [Profile.parse({ name: 'lasting', persistent: true })] })
  agent = await broker.startAgent({ heartbeat: false })
})
afterEach(() => broker.stop())

const release = async (id: string, keep: boolean) => {
  expect((await broker.delete(`/v1/sandbox/sessions/${id}?keep_workspace=${keep}`)).status).toBe(204)
  await broker.broker.settled()
}
const ensure = async (fields: Record<string, unknown> = {}, on = agent) => {
  const { session_id, sandbox } = await broker.ensure('t', fields)
  return { session_id, sandbox, request: on.sandboxes.get(sandbox.id)?.request }
}
const removals = (of = agent) => of.calls.filter((call) => call === REMOVAL).length

describe('[C-55] the workspace of a scope', () => {
  test('has one name for all of its sessions, and another for another scope', async () => {
    const first = await ensure()
    expect(first.request).toMatchObject({ workspace_id: WORKSPACE, kept_sessions: [], discard_workspace: false })
    const { sandbox } = await broker.ensure('other')
    expect(agent.sandboxes.get(sandbox.id)?.request.workspace_id).not.toBe(WORKSPACE)
  })

  test('is kept with the sandbox that goes, and the next one is told of it', async () => {
    const { session_id, sandbox } = await ensure()
    await release(session_id, true)
    expect(agent.calls).toContain(`DELETE /control/v1/sandboxes/${sandbox.id}?reason=released&keep_workspace=true`)
    expect((await ensure()).request).toMatchObject({ kept_sessions: [session_id] })
    expect(removals()).toBe(0)
  })

  test('is kept when the agent was away at the release', async () => {
    const { session_id, sandbox } = await ensure()
    agent.hooks.destroy = async () => ({ status: 500, code: 'INTERNAL', message: 'not now' })
    await broker.delete(`/v1/sandbox/sessions/${session_id}?keep_workspace=true`)
    const { decisions } = await agent.heartbeat()
    expect(decisions).toContainEqual({ sandbox_id: sandbox.id, action: 'destroy', keep_workspace: true })
  })

  test('is forgotten with a later release that does not keep it', async () => {
    await release((await ensure()).session_id, true)
    await release((await ensure()).session_id, false)
    expect(removals()).toBe(1)
    expect((await ensure()).request).toMatchObject({ kept_sessions: [], discard_workspace: false })
  })

  test('stays when the session that has it expires', async () => {
    await release((await ensure()).session_id, true)
    await ensure()
    await broker.advance(9 * 3600 * 1000)
    await broker.broker.reap()
    await broker.broker.settled()
    expect(agent.sandboxes.size).toBe(0)
    expect(removals()).toBe(0)
  })

  test('of a persistent profile stays with every release', async () => {
    await release((await ensure({ profile: 'lasting' })).session_id, false)
    expect(removals()).toBe(0)
    await release((await ensure()).session_id, false) // by another profile that is not persistent
    expect(removals()).toBe(1)
  })

  test('that could not be removed is removed before the next sandbox begins', async () => {
    await release((await ensure()).session_id, true)
    agent.hooks.removeWorkspace = async () => ({ status: 409, code: 'BINDING_CONFLICT', message: 'in use' })
    await release((await ensure()).session_id, false)
    const next = await ensure()
    expect(next.request).toMatchObject({ discard_workspace: true, kept_sessions: [] })
    await release(next.session_id, false)
    agent.hooks.removeWorkspace = async () => undefined
    const before = removals()
    await agent.heartbeat()
    await broker.broker.settled()
    expect(removals()).toBe(before)
  })

  test('that is wanted again while others are removed stays', async () => {
    const scopes = ['a', 'b'] as const
    const use = async (thread: string, profile: string) => release((await broker.ensure(thread, { profile })).session_id, false)
    agent.hooks.removeWorkspace = async () => ({ status: 409, code: 'BINDING_CONFLICT', message: 'in use' })
    // The second one of each scope, of a profile that is not persistent, gives the workspace up.
    for (const scope of scopes) for (const profile of ['lasting', 'default']) await use(scope, profile)
    const held = gate<undefined>()
    agent.hooks.removeWorkspace = () => held.promise
    const before = agent.calls.length
    const asked = () => agent.calls.slice(before).filter((call) => call.startsWith('DELETE /control/v1/workspaces/'))
    await agent.heartbeat()
    await agent.until(() => asked().length === 1)
    const pathOf = (scope: string) => `DELETE /control/v1/workspaces/${workspaceIdOf('default', { type: 'thread', id: scope })}`
    const other = scopes.find((scope) => asked()[0] !== pathOf(scope)) ?? expect.fail('both were asked for')
    await broker.delete(`/v1/sandbox/sessions/${(await broker.ensure(other, { profile: 'lasting' })).session_id}`)
    held.open(undefined)
    await broker.broker.settled()
    expect(asked()).not.toContain(pathOf(other))
  })

  test('is removed once its agent reports again', async () => {
    await release((await ensure()).session_id, true)
    agent.hooks.removeWorkspace = async () => ({ status: 409, code: 'BINDING_CONFLICT', message: 'in use' })
    await release((await ensure()).session_id, false)
    expect(removals()).toBe(1)
    agent.hooks.removeWorkspace = async () => undefined
    for (const _ of [1, 2]) {
      await agent.heartbeat()
      await broker.broker.settled()
    }
    expect(removals()).toBe(2)
  })

  test('decides which agent the next sandbox is made by', async () => {
    const { session_id } = await ensure()
    await release(session_id, true)
    const second = await broker.startAgent({ heartbeat: false })
    for (let i = 0; i < 3; i++) await broker.ensure(`other-${i}`) // the first agent has no fewer sessions than the second
    const next = await ensure()
    expect(next.request?.workspace_id).toBe(WORKSPACE)
    await release(next.session_id, true)
    await agent.close() // gone: a sandbox without the files is better than none
    expect((await ensure({}, second)).request?.workspace_id).toBe(WORKSPACE)
  })

  test('of an expired session that is released late is not taken from the session that has it now', async () => {
    const first = await ensure({ profile: 'lasting' })
    await broker.advance(9 * 3600 * 1000)
    await broker.broker.reap()
    await ensure()
    await release(first.session_id, true)
    const again = await ensure()
    await release(again.session_id, false)
    expect(removals()).toBe(1)
  })
})
