import { afterAll, beforeAll, expect, test } from 'vitest'
import { brokerApi } from '../../e2e/support/api.ts'
import { API_KEY, type Stack, startStack } from '../../e2e/support/stack.ts'
import { sbsClient } from '../support/client.ts'

let stack: Stack
let sbs: ReturnType<typeof sbsClient>

beforeAll(async () => {
  stack = await startStack({ provider: 'local', config: { compat: { sbs: { enabled: true } } } })
  sbs = sbsClient(`${stack.brokerUrl}/compat/sbs`, { authorization: `Bearer ${API_KEY}` })
})
afterAll(() => stack[Symbol.asyncDispose]())

type Row = { id: string; sandbox_id: string; scope: { id: string }; labels: Record<string, string> }

test('[3-60] one session owns exactly one sandbox: an ordinary session of the thread sbs/<uuid>, which takes no second', async () => {
  const ids = [await sbs.create(), await sbs.create()]
  const { get, negotiate } = brokerApi(stack.brokerUrl)
  const { sessions } = (await get('/v1/sandbox/sessions')).body as { sessions: Row[] }
  const own = sessions.filter(({ labels }) => labels?.surface === 'sbs')
  expect(own).toHaveLength(2)
  expect(own.map(({ scope }) => scope.id).sort()).toEqual(ids.map((id) => `sbs/${id}`).sort())
  expect(new Set(own.map(({ sandbox_id }) => sandbox_id)).size).toBe(2)
  const second = await negotiate({ thread_id: `sbs/${ids[0]}`, mode: 'create_only' })
  expect(second.status).toBe(409)
  // Who attaches to the thread is in the same sandbox as its steps.
  const { token, sandbox } = await brokerApi(stack.brokerUrl).ensure(`sbs/${ids[0]}`)
  await sbs.bash(ids[0] ?? '', 'echo from a step >file')
  const read = await fetch(`${sandbox.http_base_url}/files/download?path=file`, { headers: { authorization: `Bearer ${token}` } })
  expect(await read.text()).toBe('from a step\n')
  for (const id of ids) expect((await sbs.close(id)).status).toBe(204)
  expect(((await get('/v1/sandbox/sessions')).body as { sessions: Row[] }).sessions).toEqual([])
})

test('[3-61] each step is in the audit log of the thread, its session with its begin and end; none of it is on this surface', async () => {
  const id = await sbs.create()
  for (let step = 0; step < 3; step++) await sbs.bash(id, 'exit 3')
  await sbs.close(id)
  const events = async () => {
    const { body } = await brokerApi(stack.brokerUrl).get(`/v1/audit?thread_id=${encodeURIComponent(`sbs/${id}`)}`)
    return (body as { entries: { event: string }[] }).entries.map(({ event }) => event)
  }
  const found = await events()
  // Who opened it, who ran its three steps, who closed it.
  expect(found.filter((event) => event === 'sandbox.session.acquire')).toHaveLength(5)
  expect(found).toEqual(expect.arrayContaining(['sandbox.session.create', 'sandbox.session.release']))
  expect((await sbs.call('GET', `/sessions/${id}`)).status).toBe(405)
})

test('[C-71] here a key is needed, like everywhere on the broker; the refusal is in the words of this surface', async () => {
  const { status, body, headers } = await sbsClient(`${stack.brokerUrl}/compat/sbs`).call('POST', '/sessions')
  expect(status).toBe(401)
  expect(body).toEqual({ detail: 'send Authorization: Bearer <API key>' })
  expect(headers.get('www-authenticate')).toBe('Bearer')
  const id = await sbs.create()
  const missing = await sbs.post(id, {})
  expect(missing.status).toBe(422)
  const late = await sbs.close('0b7c5f8e-6f0a-4c58-9a0d-3f5b0a1c2d3e')
  expect([late.status, late.text]).toEqual([404, '{"detail":"Session not found"}'])
})

test('[3-24] its description is below its own path', async () => {
  const { body } = await sbs.call('GET', '/openapi.json')
  expect(body).toMatchObject({ servers: [{ url: '/compat/sbs' }] })
  expect((await sbs.call('GET', '/docs')).text).toContain("fetch('/compat/sbs/openapi.json')")
})

test('[C-71] off unless it is asked for', async () => {
  await using plain = await startStack({ provider: 'local' })
  const { status } = await sbsClient(`${plain.brokerUrl}/compat/sbs`, { authorization: `Bearer ${API_KEY}` }).call('POST', '/sessions')
  expect(status).toBe(404)
})
