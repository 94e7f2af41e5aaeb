import { existsSync, statSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { sbsClient } from '../support/client.ts'
import { type SbsServer, startSbs } from '../support/server.ts'

let server: SbsServer
let sbs: ReturnType<typeof sbsClient>

beforeAll(async () => {
  server = await startSbs()
  sbs = sbsClient(server.url)
})
afterAll(() => server[Symbol.asyncDispose]())

const UUID4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const NOT_FOUND = '{"detail":"Session not found"}'

describe('the life of a session', () => {
  test.each([
    ['nothing', undefined, {}],
    ['{}', '{}', {}],
    ['what is no JSON', '{"a', {}],
    ['a form', 'a=b', { 'content-type': 'application/x-www-form-urlencoded' }],
  ])('[3-01, 3-02] POST /sessions with %s: 200 and the id, nothing else', async (_, body, headers) => {
    const { status, text, headers: answered } = await sbs.call('POST', '/sessions', body, headers)
    expect(status).toBe(200)
    expect(answered.get('content-type')).toBe('application/json')
    expect(text).toMatch(/^\{"session_id":"[0-9a-f-]{36}"\}$/)
  })

  test('[3-03] a hundred sessions have a hundred ids, each a UUID of version 4', async () => {
    const ids: string[] = []
    // Ten at once: each starts a process.
    for (let round = 0; round < 10; round++) ids.push(...(await Promise.all(Array.from({ length: 10 }, () => sbs.create()))))
    expect(new Set(ids).size).toBe(100)
    for (const id of ids) expect(id).toMatch(UUID4)
    const closed = await Promise.all(ids.map((id) => sbs.close(id)))
    expect(closed.every(({ status }) => status === 204)).toBe(true)
  })

  test('[3-04, 3-60] a session has a directory and a sandbox of its own; it is ACTIVE, and CLOSED after its end', async () => {
    const [a, b] = [await sbs.create(), await sbs.create()]
    const directories = await Promise.all([a, b].map(async (id) => (await sbs.bash(id, 'pwd')).output.trim()))
    expect(new Set(directories).size).toBe(2)
    for (const directory of directories) {
      expect(directory.startsWith(server.temporary)).toBe(true)
      expect(statSync(directory).mode & 0o077).toBe(0)
      expect((await sbs.bash(a, `ls -A ${directory}`)).output).toBe('')
    }
    const created = server.log().filter(({ event, session_id: id }) => event === 'session_created' && (id === a || id === b))
    expect(created).toHaveLength(2)
    expect(created.map(({ status }) => status)).toEqual(['ACTIVE', 'ACTIVE'])
    expect(new Set(created.map(({ sandbox }) => sandbox)).size).toBe(2)
    await sbs.close(a)
    expect(server.log().find(({ event, session_id: id }) => event === 'session_closed' && id === a)).toMatchObject({ status: 'CLOSED' })
    expect(server.log().find(({ event, session_id: id }) => event === 'session_closed' && id === b)).toBeUndefined()
  })

  test('[3-17, 3-18, 3-19, 3-20] DELETE: 204 without a body and no directory any more; then 404', async () => {
    const id = await sbs.create()
    const directory = (await sbs.bash(id, 'echo x >file; pwd')).output.trim()
    expect(existsSync(directory)).toBe(true)
    const closed = await sbs.close(id)
    expect([closed.status, closed.text]).toEqual([204, ''])
    expect(existsSync(directory)).toBe(false)
    const step = await sbs.post(id, { sandbox_id: id, type: 'bash', payload: { cmd: 'echo no' } })
    expect([step.status, step.text]).toEqual([404, NOT_FOUND])
    const again = await sbs.close(id)
    expect([again.status, again.text]).toEqual([404, NOT_FOUND])
  })

  test.each(['0b7c5f8e-6f0a-4c58-9a0d-3f5b0a1c2d3e', 'nobody', '..%2f..', 'a'.repeat(300)])(
    '[3-19] %s was never a session: 404',
    async (id) => {
      const closed = await sbs.close(id)
      expect([closed.status, closed.text]).toEqual([404, NOT_FOUND])
      const sandbox = decodeURIComponent(id)
      const step = await sbs.post(id, { sandbox_id: sandbox, type: 'bash', payload: { cmd: 'echo no' } })
      expect([step.status, step.text]).toEqual([404, NOT_FOUND])
    },
  )
})

describe('what is no part of it', () => {
  test('[C-71] other paths and methods are refused in its own words', async () => {
    const unknown = await sbs.call('GET', '/v1/sandbox/sessions')
    expect([unknown.status, unknown.text]).toEqual([404, '{"detail":"Not Found"}'])
    for (const [method, path] of [
      ['GET', '/sessions'],
      ['GET', '/sessions/x/step'],
      ['POST', '/sessions/x'],
    ] as const) {
      const { status, text } = await sbs.call(method, path)
      expect([status, text]).toEqual([405, '{"detail":"Method Not Allowed"}'])
    }
  })

  test('[3-24] /docs is a page, /openapi.json tells of exactly three operations', async () => {
    const docs = await sbs.call('GET', '/docs')
    expect(docs.status).toBe(200)
    expect(docs.headers.get('content-type')).toMatch(/^text\/html/)
    expect(docs.text).toContain('session-based-sandbox')
    expect(docs.text).toContain("fetch('/openapi.json')")
    const { body } = await sbs.call('GET', '/openapi.json')
    const { paths } = body as { paths: Record<string, object> }
    const operations = Object.entries(paths).flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method} ${path}`))
    expect(operations.sort()).toEqual(['delete /sessions/{session_id}', 'post /sessions', 'post /sessions/{session_id}/step'])
  })

  test('[3-25] nobody is asked who they are, but a page whose name was made to mean this machine is not let in', async () => {
    const { port } = new URL(server.url)
    const { request } = await import('node:http')
    const status = await new Promise((resolve, reject) => {
      const headers = { host: `evil.example:${port}` }
      request(`${server.url}/sessions`, { method: 'POST', headers }, (answer) => resolve(answer.resume().statusCode))
        .on('error', reject)
        .end()
    })
    expect(status).toBe(400)
    const id = await sbs.create()
    const disguised = await sbs.call(
      'POST',
      `/sessions/${id}/step`,
      { sandbox_id: id, type: 'bash', payload: { cmd: 'id' } },
      {
        'content-type': 'text/plain',
      },
    )
    expect(disguised.status).toBe(422)
  })
})
