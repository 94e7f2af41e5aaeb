import assert from 'node:assert/strict'
import { type Case, check } from '../case.ts'
import { claimsOf, refused } from '../expect.ts'

const ALL = ['fs_read', 'fs_write', 'shell', 'exec']

/** Contract 2.3: negotiation in the full shape. */
export const fullCases: readonly Case[] = [
  check('4-70', "the seed's request, by a caller that may act for others", async (t) => {
    const key = await t.keyOf('deputy')
    const reply = await t.neg(
      {
        ...{ scope: { type: 'thread', id: t.thread() }, mode: 'ensure', actor: { type: 'human', id: 'usr_1' } },
        ...{ requested_capabilities: ALL, sandbox_hint: 'optional-existing-sandbox', provider_preference: 'auto' },
      },
      { key },
    )
    assert.equal(reply.status, 200, reply.text)
    assert.equal(claimsOf(reply.body.token).sub, 'usr_1')
    assert.ok(
      reply.body.warnings.some((warning) => warning.includes('hint')),
      String(reply.body.warnings),
    )
  }),
  check('4-71, C-03, C-10', 'four scope types with one id are four sessions; another type is 400', async (t) => {
    const id = t.thread()
    const grants = await Promise.all(['thread', 'workspace', 'assistant', 'deployment'].map((type) => t.ensure({ scope: { type, id } })))
    assert.equal(new Set(grants.map(({ session_id }) => session_id)).size, 4)
    assert.deepEqual(
      grants.map(({ thread_id }) => thread_id),
      [id, null, null, null],
    )
    assert.match(refused(await t.neg({ scope: { type: 'planet', id }, mode: 'ensure' }), 400, 'INVALID_REQUEST').message, /scope\.type/)
  }),
  check('4-72', 'attach_only finds or refuses, create_only makes or refuses', async (t) => {
    const scope = { type: 'thread', id: t.thread() }
    refused(await t.neg({ scope, mode: 'attach_only' }), 404, 'BINDING_NOT_FOUND')
    const made = await t.neg({ scope, mode: 'create_only' })
    assert.equal(made.status, 200, made.text)
    refused(await t.neg({ scope, mode: 'create_only' }), 409, 'BINDING_CONFLICT')
    for (const mode of ['attach_only', 'ensure']) assert.equal((await t.neg({ scope, mode })).body.session_id, made.body.session_id)
  }),
  check('4-72, C-20', 'of two that race to create_only, one wins', async (t) => {
    const scope = { type: 'thread', id: t.thread() }
    const both = await Promise.all([1, 2].map(() => t.neg({ scope, mode: 'create_only' })))
    assert.deepEqual(both.map(({ status }) => status).toSorted(), [200, 409])
  }),
  check('4-73', 'get and attach_only are one mode in both shapes; the code is named by the shape', async (t) => {
    const { session_id, thread_id } = await t.shared()
    const scope = { type: 'thread', id: thread_id }
    for (const mode of ['get', 'attach_only'])
      for (const by of [{ thread_id }, { scope }]) assert.equal((await t.neg({ ...by, mode })).body.session_id, session_id)
    const none = t.thread()
    refused(await t.neg({ thread_id: none, mode: 'attach_only' }), 404, 'SESSION_NOT_FOUND')
    refused(await t.neg({ scope: { type: 'thread', id: none }, mode: 'get' }), 404, 'BINDING_NOT_FOUND')
  }),
  check('4-74, C-05', 'an actor is a claim: only who holds act_as may name another', async (t) => {
    const key = await t.keyOf('A1')
    const own = await t.neg(
      { scope: { type: 'thread', id: t.thread() }, mode: 'ensure', actor: { type: 'agent', id: t.principal('A1') } },
      { key },
    )
    assert.equal(own.status, 200, own.text)
    const other = { scope: { type: 'thread', id: t.thread() }, mode: 'ensure', actor: { type: 'human', id: 'usr_1' } }
    assert.match(refused(await t.neg(other, { key }), 403, 'FORBIDDEN').message, /actor/)
    assert.match(refused(await t.neg({ ...other, actor: { type: 'ghost', id: 'x' } }), 400, 'INVALID_REQUEST').message, /actor\.type/)
  }),
  check('4-75, C-56', 'capabilities: all by default, none, some, by alias, unknown ones with a warning', async (t) => {
    const scope = { type: 'thread', id: t.thread() }
    const granted = async (requested_capabilities?: string[]) => {
      const { credentials, warnings, token } = await t.ensure({ scope, ...(requested_capabilities && { requested_capabilities }) })
      assert.deepEqual(claimsOf(token).caps, credentials.granted_capabilities)
      return { granted: credentials.granted_capabilities.toSorted(), warnings }
    }
    assert.deepEqual((await granted()).granted, ALL.toSorted())
    assert.deepEqual((await granted([])).granted, [])
    assert.deepEqual((await granted(['execute', 'download'])).granted, ['exec', 'fs_read'])
    const odd = await granted(['shell', 'telepathy'])
    assert.deepEqual(odd.granted, ['shell'])
    assert.ok(
      odd.warnings.some((warning) => warning.includes('telepathy')),
      String(odd.warnings),
    )
    refused(await t.neg({ scope, mode: 'ensure', requested_capabilities: ['telepathy'] }), 403, 'CAPABILITY_DENIED')
  }),
  check('C-57', 'asking for less takes nothing from another token of the same key', async (t) => {
    const scope = { type: 'thread', id: t.thread() }
    const wide = await t.ensure({ scope })
    const narrow = await t.ensure({ scope, requested_capabilities: ['fs_read'] })
    refused(await t.exec(narrow, 'true'), 403, 'CAPABILITY_DENIED')
    assert.equal((await t.exec(wide, 'true')).status, 200)
  }),
  check('4-75', 'what the profile does not grant is not granted; nothing left is 403', async (t) => {
    const scope = { type: 'thread', id: t.thread() }
    const grant = await t.ensure({ scope, profile: 'conformance-read' })
    assert.deepEqual(grant.credentials.granted_capabilities.toSorted(), ['fs_read', 'shell'])
    assert.match(refused(await t.exec(grant, 'true'), 403, 'CAPABILITY_DENIED').message, /exec not granted/)
    refused(await t.neg({ scope, mode: 'ensure', requested_capabilities: ['exec'] }), 403, 'CAPABILITY_DENIED')
  }),
  check('4-76, 4-77, 4-78, C-06', 'every answer carries the blocks of the full shape beside the MVP fields', async (t) => {
    const { session_id, thread_id, sandbox, token, expires_at, binding, dataplane, credentials, policy } = await t.shared()
    assert.equal(binding.id, session_id)
    assert.deepEqual(binding.scope, { type: 'thread', id: thread_id })
    assert.deepEqual([binding.sandbox_id, binding.provider, binding.state], [sandbox.id, sandbox.provider, 'active'])
    assert.ok(Date.parse(binding.lease_expires_at) > Date.now() - 5000)
    assert.deepEqual([dataplane.http_base_url, dataplane.ws_base_url], [sandbox.http_base_url, sandbox.ws_base_url])
    assert.equal(dataplane.mode, t.mode)
    assert.deepEqual([credentials.token_type, credentials.access_token, credentials.expires_at], ['Bearer', token, expires_at])
    assert.deepEqual([policy.idle_timeout_seconds, policy.hard_ttl_seconds], [900, 28800])
  }),
  check('4-79, 4-176', 'provider_preference: auto, the one there is, one that is not registered', async (t) => {
    const first = await t.ensure({ provider_preference: 'auto' })
    await t.ensure({ provider_preference: first.sandbox.provider })
    for (const provider_preference of ['nonesuch', 'modal'])
      assert.match(
        refused(await t.neg({ thread_id: t.thread(), mode: 'ensure', provider_preference }), 400, 'INVALID_REQUEST').message,
        /provider_preference/,
      )
  }),
  check('4-80, 4-81, C-09', 'thread_id and a thread scope are one binding; two that differ are 400', async (t) => {
    const { session_id, thread_id } = await t.shared()
    const scope = { type: 'thread', id: thread_id }
    assert.equal((await t.neg({ scope, mode: 'attach_only' })).body.session_id, session_id)
    assert.equal((await t.neg({ scope, thread_id, mode: 'get' })).body.session_id, session_id)
    refused(await t.neg({ scope, thread_id: `${thread_id}x`, mode: 'get' }), 400, 'INVALID_REQUEST')
  }),
  check('C-22, 4-54', "a hint to somebody else's sandbox does not bind", async (t) => {
    const other = await t.ensure()
    const scope = { type: 'thread', id: t.thread() }
    refused(await t.neg({ scope, mode: 'attach_only', sandbox_hint: other.sandbox.id }), 404, 'BINDING_NOT_FOUND')
    const grant = await t.ensure({ scope, sandbox_hint: other.sandbox.id })
    assert.notEqual(grant.sandbox.id, other.sandbox.id)
    assert.ok(grant.warnings.length > 0)
  }),
  check('C-75, C-76', 'another profile is a warning, or 409 with on_mismatch fail', async (t) => {
    const { thread_id } = await t.ensure()
    const request = { thread_id, mode: 'ensure', profile: 'conformance-small' }
    assert.deepEqual((await t.neg(request)).body.warnings, ['profile_differs'])
    refused(await t.neg({ ...request, on_mismatch: 'fail' }), 409, 'SESSION_CONFLICT')
  }),
]
