import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { allowedImages } from '../../src/config/images.ts'
import { startTestBroker, type TestBroker } from '../support/test-broker.ts'

describe('patterns of images.allowed', () => {
  test.each([
    ['python:3.13', 'python:3.13', true],
    ['python:3.13', 'python:3.130', false],
    ['python:3.13', 'other/python:3.13', false],
    ['python:3.13', 'python:3x13', false],
    ['python:*', 'python:3.13@sha256:0123', true],
    ['python:*', 'python:5000/evil:1', false],
    ['python*', 'python.evil.example/x:1', false],
    ['registry.example/team/*', 'registry.example/team/a:1', true],
    ['registry.example/team/*', 'registry.example/team/a/b:1', false],
    ['registry.example/team/**', 'registry.example/team/a/b:1', true],
    ['registry.example/**', 'registryxexample/a', false],
    ['**', 'registry.example/a/b@sha256:0123', true],
    ['a+(b)|c', 'a+(b)|c', true],
    ['python:*', 'python:3\nx', true],
    ['**', 'x'.repeat(513), false],
  ])('%s and %j', (pattern, image, may) => {
    expect(allowedImages({ allowed: [pattern] }, [])(image)).toBe(may)
  })
})

describe('images that a client names', () => {
  let broker: TestBroker
  beforeAll(async () => {
    broker = await startTestBroker({
      profiles: [{ name: 'analysis', image: 'profiles/analysis:1' }],
      mcpServers: [{ name: 'configured', command: 'true', box: { image: 'servers/own:1' } }],
      box: { image: 'box/own:1' },
      images: { allowed: ['extra/*'] },
    })
    await broker.startAgent({ images: true })
  })
  afterAll(() => broker.stop())

  test('Box: those of profiles, Box and MCP servers, and what images.allowed adds; others are 400 validation_error', async () => {
    const create = (id: string, image: string) =>
      broker.post<{ image: string; error: { code: string; message: string } }>(`/compat/box/v1/sessions/${id}`, { image })
    for (const [at, image] of ['profiles/analysis:1', 'servers/own:1', 'box/own:1', 'extra/one:2'].entries())
      expect(await create(`s${at}`, image)).toMatchObject({ status: 201, body: { image } })
    for (const image of ['python:3', 'extra/one/two', 'profiles/analysis:2']) {
      const { status, body } = await create('refused', image)
      expect([status, body.error.code]).toEqual([400, 'validation_error'])
      expect(body.error.message).toContain(`image: "${image}" is not an image that clients may name here`)
      // The names of the others are not this client's.
      expect(body.error.message).not.toContain('servers/own')
      expect((await broker.get('/compat/box/v1/sessions/refused')).status).toBe(404)
    }
  })

  test('[2-23] Box: a live session with another image is a conflict, whether or not the image may be named', async () => {
    const session = (body: object) => broker.post('/compat/box/v1/sessions/live', body)
    expect((await session({})).status).toBe(201)
    for (const image of ['python:3', 'extra/one:2'])
      expect(await session({ image })).toMatchObject({ status: 409, body: { error: { code: 'session_conflict' } } })
  })

  test('Box: without an image in the request nothing is asked', async () => {
    expect(await broker.post('/compat/box/v1/sessions/plain', {})).toMatchObject({ status: 201, body: { image: 'box/own:1' } })
  })

  test('MCP: an operator’s server with another image is 403 FORBIDDEN, one with an allowed image is added', async () => {
    const add = (name: string, image: string) =>
      broker.post<{ error: { code: string; details: object } }>(
        '/v1/mcp/servers',
        { name, command: 'true', box: { image } },
        { prefer: 'wait=0' },
      )
    const { status, body } = await add('foreign', 'python:3')
    expect([status, body.error.code, body.error.details]).toEqual([403, 'FORBIDDEN', { field: 'box.image' }])
    expect((await broker.get('/v1/mcp/servers/foreign')).status).toBe(404)
    expect((await add('allowed', 'extra/one:2')).status).toBe(201)
    expect((await broker.delete('/v1/mcp/servers/allowed')).status).toBe(204)
  })
})

test('a profile that holds its image: the one of the request counts for nothing, and is not refused', async () => {
  const broker = await startTestBroker({
    profiles: [{ name: 'held', image: 'profiles/held:1', locked: ['image'] }],
    box: { profile: 'held' },
  })
  try {
    await broker.startAgent({ images: true })
    expect(await broker.post('/compat/box/v1/sessions/one', { image: 'python:3' })).toMatchObject({
      status: 201,
      body: { image: 'profiles/held:1' },
    })
  } finally {
    await broker.stop()
  }
})
