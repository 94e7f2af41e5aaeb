import { createHash } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { app, TestPreviews } from '../support/previews.ts'

const ENTER = '/.well-known/boxoffice/enter'

let previews: TestPreviews
let program: Awaited<ReturnType<typeof app>>
let reached = 0
beforeAll(async () => {
  previews = await TestPreviews.start()
  program = await app((_, outgoing) => {
    reached++
    outgoing.end('the program')
  })
})
afterAll(async () => {
  await program[Symbol.asyncDispose]()
  await previews[Symbol.asyncDispose]()
})

const link = (hostname: string): string => {
  const code = crypto.randomUUID()
  previews.codes.set(code, hostname)
  return code
}

const enter = ({ hostname, url }: { hostname: string; url: string }, fields: Record<string, string>, origin: string | undefined = url) =>
  previews.fetch(hostname, ENTER, {
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded', ...(origin !== '' && { origin }) },
    body: new URLSearchParams(fields).toString(),
  })

test('the page of a link runs its own script alone, and takes nothing', async () => {
  const exposed = previews.expose(program.port)
  const code = link(exposed.hostname)
  for (const method of ['GET', 'HEAD'])
    expect(await previews.fetch(exposed.hostname, ENTER, { method })).toMatchObject({
      status: 200,
      headers: { 'cache-control': 'no-store' },
    })
  const { headers, body } = await previews.fetch(exposed.hostname, `${ENTER}?code=${code}`)
  const script = /<script>(.*?)<\/script>/s.exec(body)?.[1] ?? ''
  const hash = createHash('sha256').update(script).digest('base64')
  expect(headers['content-security-policy']).toContain(`script-src 'sha256-${hash}'`)
  expect(headers['content-security-policy']).toContain("frame-ancestors 'none'")
  expect(previews.codes.has(code)).toBe(true)
  expect(reached).toBe(0)
})

test('a code is exchanged once for a cookie of this host', async () => {
  const exposed = previews.expose(program.port)
  const code = link(exposed.hostname)
  const entered = await enter(exposed, { code, return: '/app?x=1' })
  expect(entered).toMatchObject({ status: 303, headers: { location: '/app?x=1', 'cache-control': 'no-store' } })
  const [cookie = ''] = entered.headers['set-cookie'] ?? []
  expect(cookie).toMatch(/^__Host-bx_preview=[\w.-]+; Path=\/; Max-Age=600; HttpOnly; Secure; SameSite=Lax$/)
  const shown = await previews.fetch(exposed.hostname, '/', { headers: { cookie: cookie.split(';')[0] } })
  expect(shown).toMatchObject({ status: 200, body: 'the program' })
  const again = await enter(exposed, { code })
  expect(again.status).toBe(401)
  expect(again.headers).not.toHaveProperty('set-cookie')
})

test('a cookie of a preview in a frame lies in the jar of the page around it', async () => {
  const exposed = previews.expose(program.port, { embed_origins: ['https://app.example'] })
  const { headers } = await enter(exposed, { code: link(exposed.hostname) })
  expect(headers['set-cookie']?.[0]).toMatch(/; SameSite=None; Partitioned$/)
  const page = await previews.fetch(exposed.hostname, ENTER)
  expect(page.headers['content-security-policy']).toContain('frame-ancestors https://app.example;')
})

test('a code of another host is refused, and stays good on its own', async () => {
  const [own, other] = [previews.expose(program.port), previews.expose(program.port)]
  const code = link(own.hostname)
  expect((await enter(other, { code })).status).toBe(401)
  expect((await enter(own, { code })).status).toBe(303)
})

test.each(['//evil.example', '/\\evil.example', 'https://evil.example', 'evil', '', '/a\r\nset-cookie: b=1', `/${'a'.repeat(3000)}`])(
  'a code does not lead to %j',
  async (path) => {
    const exposed = previews.expose(program.port)
    const code = link(exposed.hostname)
    const answer = await enter(exposed, { code, return: path })
    expect(answer.status).toBe(400)
    expect(answer.headers).not.toHaveProperty('set-cookie')
    expect(previews.codes.has(code)).toBe(true)
  },
)

test.each(['', 'null', 'https://evil.example'])('a page of the origin %j exchanges no code', async (origin) => {
  const exposed = previews.expose(program.port)
  const code = link(exposed.hostname)
  expect((await enter(exposed, { code }, origin)).status).toBe(403)
  expect(previews.codes.has(code)).toBe(true)
})

test('the rest below the product’s path is nobody’s, and a form too large is refused', async () => {
  const exposed = previews.expose(program.port, { access: 'public' })
  const before = reached
  for (const path of ['/.well-known/boxoffice', '/.well-known/boxoffice/', `${ENTER}/more`])
    expect((await previews.fetch(exposed.hostname, path)).status).toBe(404)
  expect((await previews.fetch(exposed.hostname, ENTER, { method: 'DELETE' })).status).toBe(405)
  expect((await enter(exposed, { code: 'a'.repeat(10_000) })).status).toBe(413)
  expect(reached).toBe(before)
  expect((await previews.fetch(exposed.hostname, '/.well-known/other')).status).toBe(200)
})

test('a host behind which nothing is has no page to enter by', async () => {
  expect(await previews.fetch(`5173-${'d'.repeat(20)}.localhost`, ENTER)).toMatchObject({ status: 410 })
})
