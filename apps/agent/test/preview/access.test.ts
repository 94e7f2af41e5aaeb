import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { previewAudience } from '@boxoffice/protocol'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { app, TestPreviews } from '../support/previews.ts'

let previews: TestPreviews
let program: Awaited<ReturnType<typeof app>>
let reached = 0
beforeAll(async () => {
  previews = await TestPreviews.start()
  program = await app((_, outgoing) => {
    reached++
    outgoing.end('the program')
  })
  const wss = new WebSocketServer({ server: program.server })
  wss.on('connection', (socket) => socket.on('message', (data) => socket.send(data)))
})
afterAll(async () => {
  await program[Symbol.asyncDispose]()
  await previews[Symbol.asyncDispose]()
})

const codeOf = ({ body }: { body: string }): unknown => (JSON.parse(body) as { error: { code: string } }).error.code

const upgrade = async (hostname: string, headers: Record<string, string> = {}): Promise<WebSocket | number> => {
  const socket = new WebSocket(`ws://127.0.0.1:${previews.port}/`, { headers: { host: `${hostname}:${previews.port}`, ...headers } })
  socket.on('error', () => {})
  const refused = once(socket, 'unexpected-response').then(([, response]) => (response as IncomingMessage).statusCode ?? 0)
  return Promise.race([once(socket, 'open').then(() => socket), refused])
}

test('without a cookie a person gets a page that says how to enter', async () => {
  const { hostname } = previews.expose(program.port)
  const before = reached
  for (const headers of [{ 'sec-fetch-mode': 'navigate', accept: '*/*' }, { accept: 'text/html,*/*' }]) {
    const page = await previews.fetch(hostname, '/deep/path', { headers })
    expect(page).toMatchObject({ status: 401, headers: { 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-store' } })
    expect(page.body).toContain('boxoffice ports link')
  }
  expect(reached).toBe(before)
})

test('[Daytona#4117, Daytona#3746] without a cookie everything else gets 401 as JSON, never a redirect', async () => {
  const { hostname } = previews.expose(program.port)
  const before = reached
  const asked = [
    { headers: { 'sec-fetch-mode': 'cors', accept: 'text/html' } },
    { headers: { 'sec-fetch-mode': 'no-cors', accept: 'image/*' } },
    { headers: { accept: 'application/json' } },
    { method: 'POST', headers: { accept: 'text/html' } },
    { method: 'OPTIONS', headers: { origin: 'https://elsewhere.example', 'access-control-request-method': 'GET' } },
  ]
  for (const options of asked) {
    const answer = await previews.fetch(hostname, '/', options)
    expect(answer).toMatchObject({ status: 401, headers: { 'content-type': 'application/json' } })
    expect(codeOf(answer)).toBe('UNAUTHENTICATED')
  }
  expect(await upgrade(hostname)).toBe(401)
  expect(reached).toBe(before)
})

test('the cookie opens its own host only', async () => {
  const [own, sibling] = [previews.expose(program.port), previews.expose(program.port)]
  const cookie = await previews.cookie(own.hostname)
  expect(await previews.fetch(own.hostname, '/', { headers: { cookie } })).toMatchObject({ status: 200, body: 'the program' })
  expect(await previews.fetch(sibling.hostname, '/', { headers: { cookie } })).toMatchObject({ status: 403 })
})

test('a cookie that a sibling has tossed before the right one does not lock anybody out', async () => {
  const [own, sibling] = [previews.expose(program.port), previews.expose(program.port)]
  const cookie = `__Host-bx_preview=nonsense; ${await previews.cookie(sibling.hostname)}; ${await previews.cookie(own.hostname)}`
  expect((await previews.fetch(own.hostname, '/', { headers: { cookie } })).status).toBe(200)
})

test('a cookie of an earlier incarnation, another session or another signer, or one that is too old, opens nothing', async () => {
  const { hostname } = previews.expose(program.port)
  const seconds = Math.floor(Date.now() / 1000)
  const cookies = [
    await previews.cookie(hostname, { gen: 2 }),
    await previews.cookie(hostname, { sid: 'ssn_other' }),
    await previews.cookie(hostname, { iss: 'http://other.test' }),
    await previews.cookie(hostname, { iat: seconds - 7200, exp: seconds - 3700 }),
    await previews.cookie(hostname, { iat: seconds, exp: seconds + 7200 }),
    `__Host-bx_preview=${await previews.issuer.sign()}`,
  ]
  for (const cookie of cookies) expect([401, 403]).toContain((await previews.fetch(hostname, '/', { headers: { cookie } })).status)
})

test('a program shows a session token that grants ports', async () => {
  const { hostname } = previews.expose(program.port)
  const withToken = async (claims: object) =>
    previews.fetch(hostname, '/', { method: 'POST', headers: { 'x-boxoffice-preview-token': await previews.issuer.sign({ ...claims }) } })
  expect(await withToken({})).toMatchObject({ status: 200, body: 'the program' })
  expect(codeOf(await withToken({ caps: ['exec'] }))).toBe('CAPABILITY_DENIED')
  // Without isolation the loopback is the host's.
  expect(codeOf(await withToken({ caps: ['ports'] }))).toBe('CAPABILITY_DENIED')
  expect((await withToken({ aud: previewAudience(hostname) })).status).toBe(401)
  const socket = await upgrade(hostname, { 'x-boxoffice-preview-token': await previews.issuer.sign() })
  expect(socket).toBeInstanceOf(WebSocket)
  ;(socket as WebSocket).terminate()
})

test('with the cookie, methods that change something and WebSockets need the preview’s own origin', async () => {
  const { hostname, url } = previews.expose(program.port)
  const cookie = await previews.cookie(hostname)
  const sibling = `http://9999-${'a'.repeat(20)}.localhost:${previews.port}`
  const before = reached
  for (const origin of [undefined, 'null', 'https://evil.example', sibling, `${url}.evil.example`, url.replace('http:', 'https:')]) {
    const headers = { cookie, ...(origin !== undefined && { origin }) }
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE'])
      expect(codeOf(await previews.fetch(hostname, '/', { method, headers }))).toBe('FORBIDDEN')
    expect(await upgrade(hostname, headers)).toBe(403)
  }
  expect(reached).toBe(before)
  expect((await previews.fetch(hostname, '/', { method: 'POST', headers: { cookie, origin: url } })).status).toBe(200)
  // A page of another origin may have the browser navigate there.
  expect((await previews.fetch(hostname, '/', { headers: { cookie, origin: 'https://evil.example' } })).status).toBe(200)
})

test('a page that may embed the preview may change something, too', async () => {
  const { hostname } = previews.expose(program.port, { embed_origins: ['https://app.example'] })
  const headers = { cookie: await previews.cookie(hostname), origin: 'https://app.example' }
  expect((await previews.fetch(hostname, '/', { method: 'POST', headers })).status).toBe(200)
})

test('a public preview asks for nothing', async () => {
  const { hostname } = previews.expose(program.port, { access: 'public' })
  expect((await previews.fetch(hostname, '/', { method: 'POST' })).status).toBe(200)
  const socket = await upgrade(hostname)
  expect(socket).toBeInstanceOf(WebSocket)
  ;(socket as WebSocket).terminate()
})

test('a host that is no preview, is one no more, or has run out is 410 and forgotten by the browser', async () => {
  const gone = previews.expose(program.port, { access: 'public' })
  previews.routes.delete(gone.hostname)
  previews.tell()
  const late = previews.expose(program.port, { access: 'public', expires_at: Date.now() - 1 })
  const remade = previews.expose(program.port, { access: 'public', generation: 2 })
  const otherDomain = previews.expose(program.port, { access: 'public' }).hostname.replace('localhost', 'evil.example')
  const otherPort = previews.expose(program.port, { access: 'public' }).hostname.replace(/^\d+/, '8080')
  for (const hostname of [gone.hostname, late.hostname, remade.hostname, otherDomain, otherPort, `5173-${'z'.repeat(20)}.localhost`]) {
    const answer = await previews.fetch(hostname, '/', { headers: { accept: 'text/html' } })
    expect(answer).toMatchObject({ status: 410, headers: { 'clear-site-data': '"*"' } })
  }
})

test('the port of the sandbox’s way out is no preview in any spelling', async () => {
  const { label } = previews.expose(3128, { access: 'public' })
  for (const port of ['3128', '03128', '+3128', '0xc38', '3128.0', '8', '65536'])
    expect((await previews.fetch(`${port}-${label}.localhost`)).status).toBe(421)
})

test('the end of the session cuts what is open, and the host is 410 from then on', async () => {
  await using own = await TestPreviews.start()
  await using endless = await app((_, outgoing) => {
    outgoing.writeHead(200)
    outgoing.write('begun')
  })
  const { hostname } = own.expose(endless.port)
  const headers = { cookie: await own.cookie(hostname) }
  const sent = own.open(hostname, '/', { headers })
  sent.end()
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  await once(response, 'data')
  const cut = once(response, 'error')
  own.revocations.apply({
    sessions: [{ session_id: own.sandbox.sessionId, reason: 'released', until: Date.now() / 1000 + 60 }],
    tokens: [],
  })
  await cut
  expect(await own.fetch(hostname, '/', { headers })).toMatchObject({ status: 410, headers: { 'clear-site-data': '"*"' } })
})

test.each(['withdrawn', 'narrowed', 'unexposed'] as const)('an open WebSocket is cut when its right is %s', async (how) => {
  await using own = await TestPreviews.start()
  const { hostname, url } = own.expose(program.port)
  const jti = crypto.randomUUID()
  const cookie = await own.cookie(hostname, { jti })
  const socket = new WebSocket(`ws://127.0.0.1:${own.port}/`, { headers: { host: `${hostname}:${own.port}`, cookie, origin: url } })
  await once(socket, 'open')
  socket.send('heard')
  await once(socket, 'message')
  const closed = once(socket, 'close')
  const [session_id, until] = [own.sandbox.sessionId, Date.now() / 1000 + 600]
  if (how === 'withdrawn') own.revocations.apply({ sessions: [], tokens: [{ jti, until }] })
  if (how === 'narrowed')
    own.revocations.apply({ sessions: [], tokens: [], grants: [{ session_id, sub: 'human', caps: ['exec'], before: until, until }] })
  if (how === 'unexposed') {
    own.routes.clear()
    own.tell()
  }
  expect((await closed)[0]).toBe(1006)
})

test('the broker is asked for what an agent does not know, once, and while it is away nothing is forgotten', async () => {
  await using own = await TestPreviews.start()
  const { hostname } = own.expose(program.port, { access: 'public' })
  const unknown = `5173-${'b'.repeat(20)}.localhost`
  await Promise.all([own.fetch(unknown), own.fetch(unknown)])
  await own.fetch(unknown)
  expect(own.asked).toEqual([unknown])
  own.exposed.replace('sb_of-another', [])
  expect((await own.fetch(hostname)).status).toBe(200)
})

test('who tries names has them looked up at a bounded rate', async () => {
  await using own = await TestPreviews.start()
  const tried = await Promise.all(Array.from({ length: 150 }, (_, i) => own.fetch(`${1000 + i}-${'c'.repeat(20)}.localhost`)))
  expect(tried.filter(({ status }) => status === 429).length).toBeGreaterThan(0)
  expect(own.asked.length).toBeLessThan(150)
})
