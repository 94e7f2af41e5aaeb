import { readFileSync } from 'node:fs'
import { Validator } from '@seriousme/openapi-schema-validator'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { dataplaneRoutes } from '../../apps/agent/src/dataplane/routes.ts'
import { socketPaths } from '../../apps/agent/src/ws/upgrade.ts'
import { TestDataplane } from '../../apps/agent/test/support/dataplane.ts'
import { LineClient } from '../../apps/agent/test/support/line-client.ts'
import { TestSocket } from '../../apps/agent/test/support/socket.ts'
import { DATAPLANE_DOCUMENT, dataplaneDocument } from '../../deploy/docs/dataplane-openapi.ts'
import { SUBPROTOCOL_LINES } from '../../packages/protocol/src/index.ts'
import { checkOf, compare, type Document, type Exchange, operationsOf, recorded, type Schema } from './answers.ts'

const text = readFileSync(DATAPLANE_DOCUMENT, 'utf8')
const document = JSON.parse(text) as Document
const isSocket = (path: string): boolean => path.endsWith('/ws') || path.endsWith('/files/watch') || path.endsWith('/ports/{id}')

let dp: TestDataplane
beforeAll(async () => {
  dp = await TestDataplane.start()
})
afterAll(() => dp[Symbol.asyncDispose]())

test('docs/protocol/dataplane.openapi.json is what the routes and schemas give', () => {
  expect(text, 'write it anew with: npm run docs').toBe(dataplaneDocument())
})

test('it is valid OpenAPI 3.1', async () => {
  const validator = new Validator()
  expect(await validator.validate(JSON.parse(text))).toEqual({ valid: true })
  expect(validator.version).toBe('3.1')
})

test('it has the routes and sockets of the agent, each with its methods, and no others', async () => {
  const known = [...dataplaneRoutes, ...socketPaths.map((path) => ({ method: 'GET', path }))]
  expect(operationsOf(document).sort()).toEqual(
    known.map(({ method, path }) => `${method.toLowerCase()} /${path.replace(':id', '{id}')}`).sort(),
  )
  for (const [path, operations] of Object.entries(document.paths)) {
    if (isSocket(path)) continue
    const response = await dp.fetch(path.replace('{id}', 'x'), { method: 'PATCH' })
    await response.text()
    const allowed = response.headers
      .get('allow')
      ?.split(', ')
      .filter((method) => method !== 'HEAD')
    expect([path, allowed?.sort()]).toEqual([
      path,
      Object.keys(operations)
        .map((method) => method.toUpperCase())
        .sort(),
    ])
  }
})

test('what is sent and answered is as it says', async () => {
  const exchanges: Exchange[] = []
  await useEverything(exchanges)
  const below = new URL(dp.base).pathname
  const { differences, succeeded } = compare(
    document,
    exchanges.map((exchange) => ({ ...exchange, path: exchange.path.slice(below.length) })),
  )
  expect(differences).toEqual([])
  expect(operationsOf(document).filter((name) => !succeeded.has(name) && !isSocket(name))).toEqual([])
})

/** A value that a schema refuses. */
const refusedBy = ({ type, enum: choices, const: only, minimum, maximum }: Schema): string | undefined => {
  if (choices !== undefined || only !== undefined) return 'nonsense'
  if (type !== 'integer') return undefined
  return String(maximum === undefined ? (minimum ?? 0) - 1 : maximum + 1)
}

test('the agent reads the query parameters that it has, with its choices and bounds', async () => {
  const tried: unknown[] = []
  for (const [path, operations] of Object.entries(document.paths))
    for (const [method, { parameters = [], requestBody }] of Object.entries(operations)) {
      if (isSocket(path)) continue
      const queried = parameters.filter((parameter) => parameter.in === 'query')
      const right = Object.fromEntries(queried.filter(({ required }) => required === true).map(({ name }) => [name, 'x']))
      for (const { name, schema, required } of queried) {
        const bad = refusedBy(schema)
        if (bad === undefined && required !== true) continue
        const { [name]: _, ...others } = right
        const response = await dp.fetch(
          `${path.replace('{id}', 'x')}?${new URLSearchParams({ ...others, ...(bad !== undefined && { [name]: bad }) })}`,
          {
            method: method.toUpperCase(),
            ...(requestBody?.content['application/json'] !== undefined && {
              headers: { 'content-type': 'application/json' },
              body: JSON.stringify({ path: 'x', from: 'x', to: 'y' }),
            }),
          },
        )
        const { detail } = (await response.json()) as { detail?: string }
        tried.push([method, path, name, response.status, detail?.split(':')[0]])
        expect(tried.at(-1)).toEqual([method, path, name, 400, name])
      }
    }
  expect(tried.length).toBeGreaterThan(20)
})

/** The frames that are none of those which the document names for one side of a socket. */
const strangeFrames = (path: string, side: 'client' | 'server', frames: readonly object[]): unknown[] => {
  const check = checkOf(document, { written: side === 'server' })
  const places = (document.paths[path]?.get?.['x-frames']?.[side] ?? []).map((_, i) => ['paths', path, 'get', 'x-frames', side, String(i)])
  return frames.flatMap((frame) => {
    const errors = places.map((place) => check(place, frame))
    return errors.includes(undefined) ? [] : [{ frame, errors }]
  })
}

test.each([
  ['/exec/ws', { type: 'start', command: 'cat; echo err >&2' }, [{ type: 'stdin', eof: true }]],
  [
    ...(['/shell/ws', { type: 'start', argv: ['/bin/cat'], cols: 80, rows: 24, term: 'xterm' }] as const),
    [
      { type: 'resize', cols: 100, rows: 30 },
      { type: 'stdin', data: '\u0004' },
    ],
  ],
])('frames of %s are as it says', async (path, start, last) => {
  const socket = await new TestSocket(dp.wsBase + path).opened()
  const sent = [{ type: 'auth', token: dp.token }, { type: 'ping', id: 1 }, start, { type: 'stdin', data: 'in\n' }, ...last]
  for (const frame of sent) socket.send(frame)
  await socket.closed
  const refused = await new TestSocket(dp.wsBase + path, 'json', { token: dp.token }).opened()
  refused.send({ type: 'start', argv: 1 })
  await refused.closed
  expect(strangeFrames(path, 'client', sent)).toEqual([])
  expect(strangeFrames(path, 'server', [...socket.frames, ...refused.frames])).toEqual([])
  expect(socket.frames.map(({ type }) => type)).toEqual(expect.arrayContaining(['auth_ok', 'pong', 'ready', 'stdout', 'exit']))
  expect(refused.find('error')).toBeDefined()
})

test('control frames of /processes/{id}/ws are as it says', async () => {
  expect((await dp.post('/processes', { process_id: 'lines', command: 'cat', args: ['-u'] })).status).toBe(201)
  const client = await LineClient.open(dp, 'lines', { protocols: [SUBPROTOCOL_LINES] })
  const sent = [
    { type: 'ping', stdout_offset: 0 },
    { type: 'auth', token: dp.token },
    { type: 'stdin', data: Buffer.from('rest\n').toString('base64') },
  ]
  for (const frame of sent) client.control(frame)
  await client.got(1)
  await client.until(() => client.frames.length >= 3)
  await client.close()
  expect(strangeFrames('/processes/{id}/ws', 'client', sent)).toEqual([])
  expect(strangeFrames('/processes/{id}/ws', 'server', client.frames)).toEqual([])
  expect(client.frames.map(({ type }) => type).sort()).toEqual(['auth_ok', 'pong', 'ready'])
})

/** Calls every operation, and has some of them refused. */
async function useEverything(exchanges: Exchange[]): Promise<void> {
  const call = async (method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Response> => {
    const isJson = typeof body === 'object'
    return recorded(fetch, exchanges, dp.base + path, {
      method,
      headers: { authorization: `Bearer ${dp.token}`, ...(isJson && { 'content-type': 'application/json' }), ...headers },
      ...(body !== undefined && { body: isJson ? JSON.stringify(body) : String(body) }),
    })
  }
  const bytes = { 'content-type': 'application/octet-stream' }
  await call('GET', '/ping')
  await call('POST', '/exec', { command: 'echo out; echo err >&2; exit 3', exec_id: 'one-0001' })
  await call('POST', '/exec', { argv: ['/nowhere/at/all'], encoding: 'base64' })
  await call('POST', '/execute', { command: 'true', timeout: 5 })
  await call('POST', '/execute', { command: 'true', timeout: 'long' })
  await call('POST', '/exec', { command: 'sleep 600', detach: true, exec_id: 'two-0002' })
  await call('GET', '/execs?state=all')
  for (const id of ['one-0001', 'two-0002', 'none-0000']) {
    await call('GET', `/execs/${id}`)
    await call('GET', `/execs/${id}/state`)
  }
  await call('GET', '/execs/one-0001/output?stream=stderr&offset=0&limit=10&wait=0')
  await call('POST', '/execs/two-0002/signal', { signal: 'SIGTERM', kill_after_seconds: 1 })
  await call('POST', '/execs/two-0002/signal', { signal: 'TALK' })
  await call('POST', '/files/upload?path=a.txt&mode=0600', 'hello', bytes)
  await call('POST', '/upload?path=b.txt&root=workspace', 'hello', bytes)
  await call('POST', '/files/upload?path=a.txt', 'hello', { ...bytes, 'if-none-match': '*' })
  const { headers } = await call('GET', '/files/download?path=a.txt')
  await call('GET', '/files/download?path=a.txt', undefined, { range: 'bytes=1-2' })
  await call('GET', '/files/download?path=a.txt', undefined, { 'if-none-match': headers.get('etag') ?? '' })
  await call('GET', '/download?path=b.txt&root=workspace')
  await call('GET', '/download?path=none')
  const archive = await call('GET', '/files/download?path=.&archive=tar')
  await call('POST', '/files/mkdir', { path: 'd/e', parents: true })
  await recorded(fetch, exchanges, `${dp.base}/files/upload?path=d&archive=tar`, {
    method: 'POST',
    headers: { authorization: `Bearer ${dp.token}`, ...bytes },
    body: await archive.arrayBuffer(),
  })
  await call('GET', '/files?path=.&type=any&limit=2&pattern=*')
  await call('GET', '/files/stat?path=a.txt&follow=true')
  await call('POST', '/files/move', { from: 'a.txt', to: 'c.txt' })
  await call('POST', '/files/move', { from: 'a.txt', to: 'c.txt' })
  await call('DELETE', '/files?path=d&recursive=true')
  await call('POST', '/processes', { process_id: 'p', command: 'sleep', args: ['600'] })
  await call('POST', '/processes', { process_id: 'p', command: 'sleep', args: ['600'] })
  await call('GET', '/processes')
  await call('GET', '/processes/p')
  await call('DELETE', '/processes/p')
  await call('GET', '/processes/p')
  await call('GET', '/ports')
  await call('GET', '/nowhere')
}
