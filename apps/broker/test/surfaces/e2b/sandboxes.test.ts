import { beforeEach, expect, test } from 'vitest'
import { startTestBroker, type TestBroker } from '../../support/test-broker.ts'

/** The control API, and who may use an access token, against a fake agent. */
type Made = { sandboxID: string; envdAccessToken: string }

let broker: TestBroker

beforeEach(async () => {
  broker = await startTestBroker()
  await broker.startAgent()
  return () => broker.broker.close()
})

const call = (key: string, method: string, path: string, body?: unknown): Promise<Response> =>
  fetch(`${broker.url}/compat/e2b${path}`, {
    method,
    headers: { 'x-api-key': key, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })

const create = async (key: string, fields: object = {}): Promise<Made> => {
  const response = await call(key, 'POST', '/v2/sandboxes', fields)
  expect(response.status).toBe(201)
  return (await response.json()) as Made
}

const health = async (id: string, token?: string): Promise<number> => {
  const headers = { 'e2b-sandbox-id': id, ...(token === undefined ? {} : { 'x-access-token': token }) }
  return (await fetch(`${broker.url}/compat/e2b/health`, { headers })).status
}

const newKey = async (tenant: string): Promise<string> => {
  const made = await fetch(`${broker.url}/v1/keys`, {
    method: 'POST',
    headers: { authorization: `Bearer ${broker.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ name: tenant, tenant, principal: `${tenant}-user`, role: 'user' }),
  })
  expect(made.status).toBe(201)
  return ((await made.json()) as { key: string }).key
}

test('a token opens its own sandbox, until that ends', async () => {
  const [one, two] = [await create(broker.key), await create(broker.key)]
  expect(await health(one.sandboxID, one.envdAccessToken)).toBe(204)
  expect(await health(one.sandboxID, two.envdAccessToken)).toBe(401)
  expect(await health(one.sandboxID)).toBe(401)
  const again = (await (await call(broker.key, 'POST', `/v2/sandboxes/${one.sandboxID}/connect`, {})).json()) as Made
  expect(await health(one.sandboxID, again.envdAccessToken)).toBe(204)
  expect((await call(broker.key, 'DELETE', `/sandboxes/${one.sandboxID}`)).status).toBe(204)
  for (const token of [one.envdAccessToken, again.envdAccessToken, two.envdAccessToken])
    expect(await health(one.sandboxID, token)).toBe(502)
  expect(await health(two.sandboxID, two.envdAccessToken)).toBe(204)
  expect(await health('x/../y', two.envdAccessToken)).toBe(502)
})

test('a sandbox of another tenant is as good as none', async () => {
  const { sandboxID } = await create(await newKey('one'))
  const other = await newKey('two')
  for (const [method, path, body] of [
    ['GET', `/sandboxes/${sandboxID}`],
    ['DELETE', `/sandboxes/${sandboxID}`],
    ['POST', `/v2/sandboxes/${sandboxID}/connect`, {}],
    ['POST', `/sandboxes/${sandboxID}/pause`, {}],
    ['POST', `/sandboxes/${sandboxID}/timeout`, { timeout: 1 }],
  ] as const) {
    const response = await call(other, method, path, body)
    expect([response.status, await response.json()]).toEqual([404, { code: 404, message: 'there is no such sandbox' }])
  }
  expect(await (await call(other, 'GET', '/v2/sandboxes')).json()).toEqual([])
})

test('[C-57] the token of a removed member opens nothing, and a later one does', async () => {
  const [alice, bob] = [await broker.principal('alice'), await broker.principal('bob')]
  const { session_id } = await alice.ensure('shared', { members: ['bob'] })
  const members = async (principals: string[]) =>
    expect((await alice.send('PUT', `/v1/sandbox/sessions/${session_id}/members`, { principals })).status).toBe(200)
  const metadata = { thread_id: 'shared' }
  const [theirs, owners] = [await create(bob.key, { metadata }), await create(alice.key, { metadata })]
  expect(await health(theirs.sandboxID, theirs.envdAccessToken)).toBe(204)
  await members([])
  expect(await health(theirs.sandboxID, theirs.envdAccessToken)).toBe(403)
  expect(await health(owners.sandboxID, owners.envdAccessToken)).toBe(204)
  expect((await call(bob.key, 'POST', `/v2/sandboxes/${theirs.sandboxID}/connect`, {})).status).toBe(403)
  expect((await call(bob.key, 'GET', `/sandboxes/${theirs.sandboxID}`)).status).toBe(403)
  expect((await call(bob.key, 'POST', `/sandboxes/${theirs.sandboxID}/timeout`, { timeout: 1 })).status).toBe(403)
  await members(['bob'])
  expect(await health(theirs.sandboxID, theirs.envdAccessToken)).toBe(403)
  const again = await create(bob.key, { metadata })
  expect(await health(again.sandboxID, again.envdAccessToken)).toBe(204)
})

test('sandboxes are listed in pages, and those that have ended are not', async () => {
  const made: string[] = []
  for (let i = 0; i < 3; i++) made.push((await create(broker.key)).sandboxID)
  const first = await call(broker.key, 'GET', '/v2/sandboxes?limit=2')
  const next = first.headers.get('x-next-token')
  const second = await call(broker.key, 'GET', `/v2/sandboxes?limit=2&nextToken=${next}`)
  expect(second.headers.get('x-next-token')).toBeNull()
  const pages = [await first.json(), await second.json()] as Made[][]
  expect(pages.map((page) => page.length)).toEqual([2, 1])
  expect(
    pages
      .flat()
      .map(({ sandboxID }) => sandboxID)
      .toSorted(),
  ).toEqual(made.toSorted())
  await call(broker.key, 'DELETE', `/sandboxes/${made[0]}`)
  expect(((await (await call(broker.key, 'GET', '/v2/sandboxes')).json()) as Made[]).length).toBe(2)
  expect((await call(broker.key, 'GET', '/v2/sandboxes?nextToken=none')).status).toBe(400)
})

test('a session of a thread that was there before outlives the time of its sandbox', async () => {
  const thread = { thread_id: 'kept', mode: 'ensure' }
  const headers = { authorization: `Bearer ${broker.key}`, 'content-type': 'application/json' }
  const ensure = () => fetch(`${broker.url}/v1/sandbox/sessions`, { method: 'POST', headers, body: JSON.stringify(thread) })
  const { session_id: before } = (await (await ensure()).json()) as { session_id: string }
  const { sandboxID } = await create(broker.key, { timeout: 0, metadata: { thread_id: 'kept' } })
  await expect.poll(async () => (await call(broker.key, 'GET', `/sandboxes/${sandboxID}`)).status).toBe(404)
  expect(((await (await ensure()).json()) as { session_id: string }).session_id).toBe(before)
})

test('calls that are not served name their feature', async () => {
  for (const [method, path, feature] of [
    ['GET', '/templates', /templates/],
    ['POST', '/sandboxes/x/snapshots', /snapshots/],
    ['GET', '/sandboxes/x/metrics', /metrics/],
    ['GET', '/volumes', /volumes/],
  ] as const) {
    const response = await call(broker.key, method, path)
    const { code, message } = (await response.json()) as { code: number; message: string }
    expect([response.status, code]).toEqual([501, 501])
    expect(message).toMatch(feature)
  }
  expect((await call('none', 'GET', '/templates')).status).toBe(401)
})
