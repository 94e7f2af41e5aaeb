import { PREVIEW_ENTER_PATH, type PreviewRoute, previewAudience } from '@boxoffice/protocol'
import { createRemoteJWKSet, jwtVerify } from 'jose'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Caller, type Refusal, startTestBroker, type TestBroker } from '../support/test-broker.ts'

type Exposed = { url: string; port: number; access: string; expires_at: string | null }
type Listed = { exposed: Exposed[]; listening: number[] | null }
type Link = { url: string; expires_at: string }

let broker: TestBroker
let agent: Awaited<ReturnType<TestBroker['startAgent']>>
beforeAll(async () => {
  const open = { name: 'open', public_ports: true }
  const closed = { name: 'closed', capabilities: ['exec', 'fs_read'] }
  broker = await startTestBroker({ profiles: [open, closed] as never })
  agent = await broker.startAgent()
})
afterAll(() => broker.stop())

const fresh = () => `t-${crypto.randomUUID()}`
const portsOf = (id: string): string => `/v1/sandbox/sessions/${id}/ports`
const expose = async (who: Pick<Caller, 'post'>, id: string, fields: object = {}) =>
  who.post<Exposed>(portsOf(id), { port: 5173, ...fields })
const codeOf = ({ body }: { body: unknown }) => (body as Refusal).error.code
const link = async (who: Pick<Caller, 'post'>, id: string, fields: object = {}) => who.post<Link>(`${portsOf(id)}/5173/link`, fields)
const codeIn = ({ body }: { body: Link }): string => new URLSearchParams(new URL(body.url).hash.slice(1)).get('code') ?? ''

const asAgent = async <T>(path: string, body: object): Promise<T> => {
  const response = await agent.post(`/v1/agents/${agent.id}/previews/${path}`, agent.registration.agent_token, body)
  expect(response.status).toBe(200)
  return (await response.json()) as T
}
const find = async (host: string) => (await asAgent<{ preview: PreviewRoute | null }>('find', { host })).preview
const enter = async (host: string, code: string) =>
  (await asAgent<{ grant: { token: string; max_age_seconds: number } | null }>('enter', { host, code })).grant

const people = async () => ({ ann: await broker.principal(fresh()), bob: await broker.principal(fresh()) })

test('an exposed port has a URL of its own; agent, audit log and events hear of it, and of its end', async () => {
  const { ann } = await people()
  const { session_id: id, sandbox } = await ann.ensure(fresh())
  const { status, body } = await expose(ann, id, { ttl_seconds: 600, embed_origins: ['https://app.example'] })
  expect([status, body]).toEqual([
    200,
    {
      ...{ port: 5173, access: 'private', host: 'localhost', embed_origins: ['https://app.example'] },
      ...{ url: expect.stringMatching(/^http:\/\/5173-[a-z2-7]{20}\.localhost:\d+$/), expires_at: expect.any(String) },
    },
  ])
  expect(new URL(body.url).port).toBe(new URL(agent.url).port)
  expect(agent.previews.get(sandbox.id)).toMatchObject([{ url: body.url, port: 5173, session_id: id, generation: 1 }])
  expect((await ann.get<Listed>(portsOf(id))).body).toEqual({ exposed: [body], listening: null })
  // The same port keeps its host.
  expect((await expose(ann, id)).body).toMatchObject({ url: body.url, expires_at: null })

  expect((await ann.delete(`${portsOf(id)}/5173`)).status).toBe(204)
  expect(agent.previews.get(sandbox.id)).toEqual([])
  expect(codeOf(await ann.delete(`${portsOf(id)}/5173`))).toBe('NOT_FOUND')
  expect((await expose(ann, id)).body.url).not.toBe(body.url)
  const { entries } = (await broker.get<{ entries: { event: string }[] }>(`/v1/audit?session_id=${id}`)).body
  expect(entries.map(({ event }) => event).filter((event) => event.startsWith('sandbox.port.'))).toEqual([
    'sandbox.port.expose',
    'sandbox.port.withdraw',
    'sandbox.port.expose',
    'sandbox.port.expose',
  ])
})

test('only the owner exposes and withdraws, a member makes links, and everybody else is refused', async () => {
  const { ann, bob } = await people()
  const carol = await broker.principal(fresh())
  const { session_id: id } = await ann.ensure(fresh())
  const names = (await broker.get<{ keys: { id: string; principal: string }[] }>('/v1/keys')).body.keys
  const bobs = names.find((key) => key.id === bob.keyId)?.principal
  await ann.send('PUT', `/v1/sandbox/sessions/${id}/members`, { principals: [bobs] })
  for (const other of [bob, carol]) expect(codeOf(await expose(other, id))).toBe('FORBIDDEN')
  expect((await expose(ann, id)).status).toBe(200)
  expect(codeOf(await bob.delete(`${portsOf(id)}/5173`))).toBe('FORBIDDEN')
  expect((await link(bob, id)).status).toBe(200)
  expect(codeOf(await link(carol, id))).toBe('FORBIDDEN')
  await expose(ann, id, { access: 'tenant' })
  expect((await link(carol, id)).status).toBe(200)
  const restricted = await broker.principal(fresh(), { capabilities: ['exec'] })
  expect(codeOf(await link(restricted, id))).toBe('CAPABILITY_DENIED')
  const elsewhere = await broker.principal(fresh(), { tenant: 'elsewhere' })
  expect((await link(elsewhere, id)).status).toBe(404)
})

test('who may not use ports exposes none', async () => {
  const { ann } = await people()
  const narrow = await ann.ensure(fresh(), { profile: 'closed' })
  expect(codeOf(await expose(ann, narrow.session_id))).toBe('CAPABILITY_DENIED')
  const restricted = await broker.principal(fresh(), { capabilities: ['exec'] })
  const { session_id } = await restricted.ensure(fresh())
  expect(codeOf(await expose(restricted, session_id))).toBe('CAPABILITY_DENIED')
  // Without isolation, as this agent's sandboxes are, the loopback is the host's.
  const withoutExec = await broker.principal(fresh(), { capabilities: ['ports'] })
  const own = await withoutExec.ensure(fresh(), { requested_capabilities: ['ports'] })
  expect(codeOf(await expose(withoutExec, own.session_id))).toBe('CAPABILITY_DENIED')
})

test('a public port takes a profile that allows it', async () => {
  const { ann } = await people()
  const plain = await ann.ensure(fresh())
  expect(codeOf(await expose(ann, plain.session_id, { access: 'public' }))).toBe('FORBIDDEN')
  const open = await ann.ensure(fresh(), { profile: 'open' })
  expect((await expose(ann, open.session_id, { access: 'public' })).body).toMatchObject({ access: 'public' })
})

test.each([3128, 8, 0, -1, 65_536, 5173.5, '5173', '3128', 'http', null])('the port %j is not exposed', async (port) => {
  const { session_id: id } = await broker.ensure(fresh())
  expect(codeOf(await broker.post(portsOf(id), { port }))).toBe('INVALID_REQUEST')
})

test.each([
  { ttl_seconds: 1 },
  { embed_origins: ['https://app.example/path'] },
  { embed_origins: ["'self'"] },
  { access: 'everybody' },
  { host: 'evil.example' },
])('the terms %j are refused', async (terms) => {
  const { session_id: id } = await broker.ensure(fresh())
  expect(codeOf(await expose(broker, id, terms))).toBe('INVALID_REQUEST')
})

test('a code is exchanged once, on its host, for a token that is good there alone', async () => {
  const { ann } = await people()
  const { session_id: id, sandbox } = await ann.ensure(fresh())
  const { host, hostname } = new URL((await expose(ann, id)).body.url)
  const other = new URL((await expose(ann, id, { port: 8000 })).body.url)
  const linked = await link(ann, id, { path: '/app?x=1', ttl_seconds: 120 })
  const { pathname, hash } = new URL(linked.body.url)
  expect([pathname, new URLSearchParams(hash.slice(1)).get('return')]).toEqual([PREVIEW_ENTER_PATH, '/app?x=1'])
  const code = codeIn(linked)
  expect(await enter(other.host, code)).toBeNull()
  const all = await Promise.all(Array.from({ length: 8 }, () => enter(host, code)))
  const [grant, ...more] = all.filter((one) => one !== null)
  expect(more).toEqual([])
  const keys = createRemoteJWKSet(new URL(`${broker.url}/.well-known/jwks.json`))
  const { payload } = await jwtVerify(grant?.token ?? '', keys, { audience: previewAudience(hostname) })
  expect(payload).toMatchObject({ sid: id, sandbox_id: sandbox.id, gen: 1 })
  expect((payload.exp ?? 0) - (payload.iat ?? 0)).toBeLessThanOrEqual(3600)
  expect(payload).not.toHaveProperty('caps')
})

test('a code is too old after its time, and worth nothing once its maker has lost the session', async () => {
  const { ann, bob } = await people()
  const { session_id: id } = await ann.ensure(fresh())
  const { host } = new URL((await expose(ann, id)).body.url)
  const bobs = (await broker.get<{ keys: { id: string; principal: string }[] }>('/v1/keys')).body.keys.find((key) => key.id === bob.keyId)
  const members = (principals: unknown[]) => ann.send('PUT', `/v1/sandbox/sessions/${id}/members`, { principals })
  await members([bobs?.principal])
  const code = codeIn(await link(bob, id, { ttl_seconds: 600 }))
  await members([])
  expect(await enter(host, code)).toBeNull()
  const late = codeIn(await link(ann, id, { ttl_seconds: 60 }))
  broker.pass(61_000)
  expect(await enter(host, late)).toBeNull()
})

test.each(['//evil.example', 'evil', '/\\evil', ''])('a link does not lead to %j', async (path) => {
  const { session_id: id } = await broker.ensure(fresh())
  await expose(broker, id)
  expect(codeOf(await link(broker, id, { path }))).toBe('INVALID_REQUEST')
})

test('a host is found while its port is exposed and its session lives, and has a certificate so long', async () => {
  const { ann } = await people()
  const { session_id: id } = await ann.ensure(fresh())
  const { host, hostname } = new URL((await expose(ann, id, { ttl_seconds: 60 })).body.url)
  const mayHaveCertificate = async (domain: string) => (await fetch(`${broker.url}/internal/tls-ask?domain=${domain}`)).status
  expect(await find(host)).toMatchObject({ session_id: id })
  expect(await mayHaveCertificate(hostname)).toBe(200)
  for (const wrong of [
    hostname.replace('5173', '5174'),
    hostname.replace('localhost', 'evil.example'),
    'localhost',
    `${hostname}.evil.example`,
  ])
    expect([wrong, await mayHaveCertificate(wrong), await find(wrong)]).toEqual([wrong, 404, null])
  broker.pass(61_000)
  expect([await find(host), await mayHaveCertificate(hostname)]).toEqual([null, 404])
  await broker.advance(0)
  const again = new URL((await expose(ann, id)).body.url)
  expect(await find(again.host)).not.toBeNull()
  await ann.release(id)
  expect([await find(again.host), await mayHaveCertificate(again.hostname)]).toEqual([null, 404])
})

test('another agent learns nothing of a host', async () => {
  const { session_id: id } = await broker.ensure(fresh())
  const { host } = new URL((await expose(broker, id)).body.url)
  const { agents } = (await broker.get<{ agents: { id: string }[] }>('/v1/agents')).body
  expect(agents.length).toBeGreaterThan(0)
  const wrong = await agent.post(`/v1/agents/${agent.id}/previews/find`, 'bxa_wrong', { host })
  expect(wrong.status).toBe(401)
})

test('an agent may have a domain of its own, for sessions that are not relayed', async () => {
  const own = await startTestBroker({ previewDomain: 'preview.example.com' })
  try {
    await (await own.startAgent()).register({ preview_domain: 'host-1.example.net:8443' })
    const urlOf = async (relay: 'auto' | 'always') => {
      const { session_id: id } = await own.ensure(fresh(), { relay })
      return (await expose(own, id)).body.url
    }
    expect(await urlOf('auto')).toMatch(/^https:\/\/5173-[a-z2-7]{20}\.host-1\.example\.net:8443$/)
    expect(await urlOf('always')).toMatch(/^https:\/\/5173-[a-z2-7]{20}\.preview\.example\.com$/)
  } finally {
    await own.stop()
  }
})

test('with a domain of their own previews are https there', async () => {
  const own = await startTestBroker({ previewDomain: 'preview.example.com' })
  try {
    await own.startAgent()
    const { session_id: id } = await own.ensure(fresh())
    expect((await expose(own, id)).body.url).toMatch(/^https:\/\/5173-[a-z2-7]{20}\.preview\.example\.com$/)
  } finally {
    await own.stop()
  }
})
