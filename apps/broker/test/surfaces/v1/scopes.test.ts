import type { NegotiateResponse } from '@boxoffice/protocol'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Refusal, startTestBroker, type TestBroker } from '../../support/test-broker.ts'

let broker: TestBroker
beforeAll(async () => {
  broker = await startTestBroker()
  await broker.startAgent()
})
afterAll(() => broker.stop())

const VARIABLES = { launcher_type: 'group', launcher_id: '123456', sender_id: '789' }
const negotiate = (fields: Record<string, unknown>) => broker.negotiate({ mode: 'ensure', ...fields })

describe('scope templates over HTTP', () => {
  test('[0-02, 0-03, 0-04, 0-05, 0-56] the field that a front end draws', async () => {
    const { status, body } = await broker.get('/v1/sandbox/scope-templates')
    expect(status).toBe(200)
    expect(body).toEqual({
      name: 'box-session-id-template',
      label: { en_US: 'Sandbox Scope', zh_Hans: '沙箱作用域' },
      description: {
        en_US: 'Determines how sandbox environments are shared. Use variables to control isolation granularity.',
        zh_Hans: '决定沙箱环境的共享方式。使用变量控制隔离粒度。',
      },
      type: 'select',
      required: false,
      default: '{launcher_type}_{launcher_id}',
      options: [
        { value: '{launcher_type}_{launcher_id}', label: { en_US: 'Per chat (Recommended)', zh_Hans: '每个会话(推荐)' } },
        { value: '{launcher_type}_{launcher_id}_{sender_id}', label: { en_US: 'Per user in chat', zh_Hans: '会话中每个用户' } },
        {
          value: '{launcher_type}_{launcher_id}_{conversation_id}',
          label: { en_US: 'Per conversation context', zh_Hans: '每个对话上下文' },
        },
        { value: '{query_id}', label: { en_US: 'Per message (isolated)', zh_Hans: '每条消息(完全隔离)' } },
      ],
    })
  })

  test('[0-01, 0-18] resolve tells the thread of a template and makes nothing', async () => {
    const template = '{launcher_type}|{launcher_id}|{sender_id}|{conversation_id}|{query_id}'
    const variables = { ...VARIABLES, conversation_id: 'a1b2c3d4', query_id: 42 }
    const rendered = 'group|123456|789|a1b2c3d4|42'
    const { body } = await broker.post('/v1/sandbox/scopes/resolve', { template, variables })
    expect(body).toEqual({ template, rendered, scope: { type: 'thread', id: rendered } })
    expect((await broker.get<{ sessions: [] }>('/v1/sandbox/sessions')).body.sessions).toEqual([])
  })

  test('[0-08] without a template it is the default', async () => {
    const { body } = await broker.post('/v1/sandbox/scopes/resolve', { variables: VARIABLES })
    expect(body).toMatchObject({ template: '{launcher_type}_{launcher_id}', rendered: 'group_123456' })
  })

  test('[0-10] a template that is none is 400 and names the field', async () => {
    const { status, body } = await broker.post<Refusal>('/v1/sandbox/scopes/resolve', { template: '{a.b}', variables: {} })
    expect([status, body.error.code, body.error.message]).toEqual([400, 'INVALID_REQUEST', expect.stringMatching(/^template: /)])
  })

  test('[0-09, 0-18] negotiate takes a template in the place of thread_id, never beside it', async () => {
    const { status, body } = await negotiate({ scope_template: '{sender_id}', variables: VARIABLES })
    expect([status, body.thread_id, body.binding.labels]).toEqual([200, '789', { scope_template: '{sender_id}' }])
    expect((await negotiate({ thread_id: '789' })).body.session_id).toBe(body.session_id)
    expect((await negotiate({ variables: VARIABLES })).body.thread_id).toBe('group_123456')
    for (const both of [
      { thread_id: 't', scope_template: '{x}' },
      { thread_id: 't', variables: {} },
    ])
      expect((await negotiate(both)).status).toBe(400)
  })

  test('[0-12] what only looks alike is two bindings', async () => {
    const ensure = async (a: string, b: string): Promise<NegotiateResponse> =>
      (await negotiate({ scope_template: '{launcher_type}_{launcher_id}', variables: { launcher_type: a, launcher_id: b } })).body
    expect((await ensure('group_1', '2')).session_id).not.toBe((await ensure('group', '1_2')).session_id)
  })

  test('[0-13] the tenant is part of the key', async () => {
    const elsewhere = await broker.principal('x', { tenant: 'elsewhere' })
    const here = await negotiate({ variables: VARIABLES })
    const there = await elsewhere.negotiate({ mode: 'ensure', variables: VARIABLES })
    expect([there.status, there.body.thread_id]).toEqual([200, here.body.thread_id])
    expect(there.body.session_id).not.toBe(here.body.session_id)
  })
})
