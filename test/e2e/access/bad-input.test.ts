import { once } from 'node:events'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { brokerApi, dataplane, type Grant, request } from '../support/api.ts'
import { runProgram } from '../support/program.ts'
import { expectRefusal, INTERNALS } from '../support/refusal.ts'
import { API_KEY, type Stack, startStack } from '../support/stack.ts'

const SESSIONS = '/v1/sandbox/sessions'
const JSON_TYPE = { 'content-type': 'application/json' }
const LONG = 'x'.repeat(10_000)
const NOT_UTF8 = new Uint8Array(Buffer.from('7b227468726561645f6964223a22ff222c226d6f6465223a22656e73757265227d', 'hex'))
const DEEP = `{"thread_id":"deep","mode":"ensure","x":${'['.repeat(30_000)}${']'.repeat(30_000)}}`

const liveSessions = async (url: string, key = API_KEY): Promise<{ id: string }[]> =>
  ((await brokerApi(url, key).get(SESSIONS)).body as { sessions: { id: string }[] }).sessions

describe('a stranger at the door', () => {
  let stack: Stack
  let grant: Grant
  let other: Grant
  beforeAll(async () => {
    stack = await startStack({ provider: 'local', config: { rate_limits: { auth_failures: { per_second: 1000, burst: 1000 } } } })
    const broker = brokerApi(stack.brokerUrl)
    grant = await broker.ensure('mine')
    other = await broker.ensure('theirs')
  })
  afterAll(() => stack?.[Symbol.asyncDispose]())

  const body = (fields: object): string => JSON.stringify({ thread_id: 't', mode: 'ensure', ...fields })
  const toBroker: [
    name: string,
    body: string | Uint8Array<ArrayBuffer>,
    status: number,
    code: string,
    message: RegExp,
    headers?: Record<string, string>,
  ][] = [
    ['half of a JSON', '{"thread_id":', 400, 'INVALID_REQUEST', /body.*JSON/],
    ['no UTF-8', NOT_UTF8, 400, 'INVALID_REQUEST', /body.*UTF-8/],
    ['an unknown mode', body({ mode: 'steal' }), 400, 'INVALID_REQUEST', /^mode: must be one of get, ensure, attach_only, create_only$/],
    ['no thread_id', '{"mode":"ensure"}', 400, 'INVALID_REQUEST', /^thread_id: is required and must be a string$/],
    ['an id of 10 kB', body({ thread_id: LONG }), 400, 'INVALID_REQUEST', /^thread_id: must be at most 256/],
    ['an id with NUL', body({ thread_id: 'a\0b' }), 400, 'INVALID_REQUEST', /^thread_id: .*control characters/],
    [
      'an id with half a surrogate pair',
      '{"thread_id":"a\\ud800","mode":"ensure"}',
      400,
      'INVALID_REQUEST',
      /^thread_id: must be valid Unicode/,
    ],
    ['a profile that is not there', body({ profile: 'nope' }), 400, 'INVALID_REQUEST', /^profile: .*"nope".*there are: .*default/],
    ['labels that are no strings', body({ labels: { a: 1 } }), 400, 'INVALID_REQUEST', /^labels\.a: must be a string$/],
    ['30,000 levels under a key', DEEP, 400, 'INVALID_REQUEST', /nested more than 100/, { 'idempotency-key': 'deep' }],
    ['a key for repetition of 256', body({}), 400, 'INVALID_REQUEST', /^Idempotency-Key: .*255/, { 'idempotency-key': 'k'.repeat(256) }],
    ['a body of 70 kB', body({ x: 'x'.repeat(70_000) }), 413, 'PAYLOAD_TOO_LARGE', /65536 bytes/],
    ['a form', 'thread_id=t', 415, 'UNSUPPORTED_MEDIA_TYPE', /application\/json/, { 'content-type': 'application/x-www-form-urlencoded' }],
    ['a wrong key', body({}), 401, 'UNAUTHENTICATED', /API key/, { authorization: 'Bearer wrong' }],
    ['a key of 10 kB', body({}), 401, 'UNAUTHENTICATED', /API key/, { authorization: `Bearer ${LONG}` }],
    ['another scheme', body({}), 401, 'UNAUTHENTICATED', /Bearer/, { authorization: 'Basic eDp5' }],
    ['no key and no JSON', '{', 401, 'UNAUTHENTICATED', /Bearer/, { authorization: '' }],
  ]
  test.each(toBroker)('sends the broker %s', async (_, sent, status, code, message, headers = {}) => {
    const before = await liveSessions(stack.brokerUrl)
    const reply = await request(stack.brokerUrl + SESSIONS, {
      method: 'POST',
      headers: { ...JSON_TYPE, authorization: `Bearer ${API_KEY}`, ...headers },
      body: sent,
    })
    expect(expectRefusal(reply, status, code).message).toMatch(message)
    expect(await liveSessions(stack.brokerUrl)).toEqual(before)
  })

  test.each(['/v1/agents/register', '/v1/agents/agt_x/heartbeat'])(
    'plays an agent at %s: 401 before its body is looked at',
    async (path) => {
      const headers = { ...JSON_TYPE, authorization: `Bearer ${API_KEY}` }
      expectRefusal(await request(stack.brokerUrl + path, { method: 'POST', headers, body: '{' }), 401, 'UNAUTHENTICATED')
    },
  )

  test('sends the broker a session token in the place of a key', async () => {
    expectRefusal(await brokerApi(stack.brokerUrl, grant.token).negotiate({ thread_id: 't', mode: 'ensure' }), 401, 'UNAUTHENTICATED')
  })

  const toExec: [name: string, body: string, status: number, code: string, message: RegExp][] = [
    ['half of a JSON', '{"command":', 400, 'INVALID_REQUEST', /^body: /],
    ['nothing to run', '{}', 400, 'INVALID_REQUEST', /^command, argv: /],
    ['NUL in a command', '{"command":"echo a\\u0000b > made"}', 400, 'INVALID_REQUEST', /^command: .*NUL/],
    ['NUL in a variable', '{"command":"touch made","env":{"A":"\\u0000"}}', 400, 'INVALID_REQUEST', /^env\.A: .*NUL/],
    ['a variable that cannot be', '{"command":"touch made","env":{"A B":"x"}}', 400, 'INVALID_REQUEST', /^env\.A B: names must match/],
    ['an exec_id of 10 kB', JSON.stringify({ command: 'touch made', exec_id: LONG }), 400, 'INVALID_REQUEST', /^exec_id: .*64/],
    ['a timeout before now', '{"command":"touch made","timeout_seconds":-1}', 400, 'INVALID_REQUEST', /^timeout_seconds: .*at least 0/],
    [
      'a command of 130 kB',
      JSON.stringify({ command: `touch made #${'x'.repeat(133_000)}` }),
      413,
      'PAYLOAD_TOO_LARGE',
      /^command: at most \d+ bytes/,
    ],
  ]
  test.each(toExec)('runs %s', async (_, sent, status, code, message) => {
    const headers = { ...JSON_TYPE, authorization: `Bearer ${grant.token}` }
    const reply = await request(`${grant.sandbox.http_base_url}/exec`, { method: 'POST', headers, body: sent })
    expect(expectRefusal(reply, status, code).message).toMatch(message)
    expect((await dataplane(grant, 'GET', '/files')).body).toMatchObject({ files: [] })
  })

  test.each([
    ['no token', () => '', 401, 'UNAUTHENTICATED'],
    ['a token that is none', () => 'Bearer x.y.z', 401, 'UNAUTHENTICATED'],
    ['a token of 10 kB', () => `Bearer ${LONG}`, 401, 'UNAUTHENTICATED'],
    ['an API key', () => `Bearer ${API_KEY}`, 401, 'UNAUTHENTICATED'],
    ['a token with another signature', () => `Bearer ${grant.token.slice(0, -6)}AAAAAA`, 401, 'UNAUTHENTICATED'],
    ["another session's token", () => `Bearer ${other.token}`, 403, 'FORBIDDEN'],
  ])('shows the dataplane %s', async (_, authorization, status, code) => {
    const headers = { ...JSON_TYPE, authorization: authorization() }
    for (const [method, path, sent] of [
      ['POST', '/exec', '{"command":"touch made"}'],
      ['POST', '/files/upload?path=made', 'x'],
      ['GET', '/files/download?path=made', undefined],
    ] as const)
      expectRefusal(
        await request(grant.sandbox.http_base_url + path, { method, headers, ...(sent === undefined ? {} : { body: sent }) }),
        status,
        code,
      )
    expect((await dataplane(grant, 'GET', '/files')).body).toMatchObject({ files: [] })
  })

  test.each([
    ['POST', `/files/upload?path=${LONG}`, 'INVALID_PATH', /more than 4095 bytes/],
    ['POST', `/files/upload?path=${'a/'.repeat(2040)}${'b'.repeat(300)}`, 'INVALID_PATH', /more than 4095 bytes/],
    ['POST', '/files/upload?path=a%00b', 'INVALID_PATH', /NUL/],
    ['POST', '/files/upload?path=%ff', 'INVALID_REQUEST', /UTF-8/],
    ['POST', '/files/upload?path=../../etc/x', 'INVALID_PATH', /outside/],
    ['POST', '/files/upload?path=x&root=moon', 'INVALID_REQUEST', /^root: must be one of/],
    ['POST', '/files/upload?path=x&mode=rw', 'INVALID_REQUEST', /^mode: /],
    ['POST', '/files/upload', 'INVALID_REQUEST', /^path: /],
    ['GET', `/files/stat?path=${LONG}`, 'INVALID_PATH', /4095/],
    ['GET', '/files?limit=0', 'INVALID_REQUEST', /^limit: /],
    ['DELETE', '/files?path=.', 'INVALID_PATH', /root/],
  ] as const)('%s %.40s: refused, and nothing is written', async (method, path, code, message) => {
    const reply = await request(grant.sandbox.http_base_url + path, {
      method,
      headers: { authorization: `Bearer ${grant.token}` },
      ...(method === 'POST' ? { body: 'x' } : {}),
    })
    expect(expectRefusal(reply, 400, code).message).toMatch(message)
    expect((await dataplane(grant, 'GET', '/files?type=any')).body).toMatchObject({ files: [] })
  })

  const frame = (fields: object): string => JSON.stringify(fields)
  const AUTHENTICATED = true
  test.each([
    ['starts before it has said who it is', frame({ type: 'start', command: 'touch made' }), !AUTHENTICATED, 4401, 'UNAUTHENTICATED'],
    ['shows a token that is none', frame({ type: 'auth', token: 'x' }), !AUTHENTICATED, 4401, 'UNAUTHENTICATED'],
    ['shows a token that is a number', frame({ type: 'auth', token: 1 }), !AUTHENTICATED, 4400, 'INVALID_REQUEST'],
    ['sends half of a JSON', '{', AUTHENTICATED, 4400, 'INVALID_REQUEST'],
    ['sends no object', '[]', AUTHENTICATED, 4400, 'INVALID_REQUEST'],
    ['writes before anything runs', frame({ type: 'stdin', data: 'x' }), AUTHENTICATED, 4400, 'INVALID_REQUEST'],
    ['starts NUL', frame({ type: 'start', command: 'touch made\0' }), AUTHENTICATED, 4400, 'INVALID_REQUEST'],
    ['attaches to an id of 10 kB', frame({ type: 'start', attach: LONG }), AUTHENTICATED, 4400, 'INVALID_REQUEST'],
    ['attaches to nothing', frame({ type: 'start', attach: 'nothing' }), AUTHENTICATED, 4404, 'EXEC_NOT_FOUND'],
  ] as const)('on a socket %s', async (_, sent, authenticated, close, code) => {
    const headers = authenticated ? { authorization: `Bearer ${grant.token}` } : {}
    const socket = new WebSocket(`${grant.sandbox.ws_base_url}/exec/ws`, { headers })
    const frames: { type: string; error?: { code: string; message: string; request_id: string } }[] = []
    socket.on('message', (data) => frames.push(JSON.parse(String(data))))
    socket.on('open', () => socket.send(sent))
    const [closed] = (await once(socket, 'close')) as [number]
    const { error } = frames.at(-1) ?? {}
    expect([closed, error?.code]).toEqual([close, code])
    expect(error?.request_id).toMatch(/^req_/)
    expect(error?.message).not.toMatch(INTERNALS)
    expect((await dataplane(grant, 'GET', '/files')).body).toMatchObject({ files: [] })
  })

  test("another session's token opens no socket", async () => {
    const socket = new WebSocket(`${grant.sandbox.ws_base_url}/exec/ws`, { headers: { authorization: `Bearer ${other.token}` } })
    socket.on('error', () => {}) // the refusal is an answer here
    const [, response] = await once(socket, 'unexpected-response')
    expect([response.statusCode, JSON.parse(await text(response)).error.code]).toEqual([403, 'FORBIDDEN'])
  })

  test.each(['broker', 'agent'] as const)('speaks no HTTP to the %s', async (part) => {
    const url = new URL(part === 'broker' ? stack.brokerUrl : grant.sandbox.http_base_url)
    for (const sent of ['\x16\x03\x01 hello\r\n\r\n', 'GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n']) {
      const socket = connect(Number(url.port), url.hostname)
      socket.write(sent)
      const answer = await text(socket)
      expect(answer).toMatch(/^HTTP\/1\.1 400 /)
      const [head = '', body = ''] = answer.split('\r\n\r\n')
      const { error, detail } = JSON.parse(body)
      expect(error).toMatchObject({ code: 'INVALID_REQUEST', message: detail, retryable: false })
      expect(head).toContain(error.request_id)
    }
  })

  test.each(['GET / HTTP/1.1\r\nHost: a b<>', 'OPTIONS * HTTP/1.1\r\nHost: x'])('asks the broker with no URL: %j', async (head) => {
    const socket = connect(Number(new URL(stack.brokerUrl).port), '127.0.0.1')
    socket.write(`${head}\r\nConnection: close\r\n\r\n`)
    const answer = await text(socket)
    expect(answer).toMatch(/^HTTP\/1\.1 400 /)
    expect(answer).toMatch(/"code":"INVALID_REQUEST","message":"the request has no valid URL: /)
  })

  const refusals: [sent: string, status: number, message: RegExp][] = [
    ['GET /healthz HTTP/1.1', 400, /^Host: the header is missing/],
    ['POST /healthz HTTP/1.1\r\nHost: x\r\nExpect: magic\r\nContent-Length: 3', 417, /^Expect: magic cannot be met; leave it out/],
  ]
  test.each(refusals)('sends to both what Node would refuse without a word: %j', async (sent, status, message) => {
    for (const url of [stack.brokerUrl, grant.sandbox.http_base_url]) {
      const socket = connect(Number(new URL(url).port), '127.0.0.1')
      socket.write(`${sent}\r\nX-Request-Id: req_bare\r\n\r\n`)
      const [head = '', body = ''] = (await text(socket)).split('\r\n\r\n')
      expect(head).toMatch(new RegExp(`^HTTP/1.1 ${status} [^]*x-request-id: req_bare`, 'i'))
      expect(JSON.parse(body).error).toMatchObject({
        ...{ code: 'INVALID_REQUEST', retryable: false, request_id: 'req_bare' },
        message: expect.stringMatching(message),
      })
    }
  })

  test('HTTP/1.0 needs no Host', async () => {
    const socket = connect(Number(new URL(stack.agent().ready.agent_url).port), '127.0.0.1')
    socket.write('GET /healthz HTTP/1.0\r\n\r\n')
    expect(await text(socket)).toMatch(/^HTTP\/1\.1 200 /)
  })

  test('afterwards both serve as before', async () => {
    expect((await dataplane(grant, 'POST', '/exec', { command: 'echo alive' })).body).toMatchObject({ stdout: 'alive\n' })
    expect((await brokerApi(stack.brokerUrl).ensure('mine')).session_id).toBe(grant.session_id)
    expect(await liveSessions(stack.brokerUrl)).toHaveLength(2)
  })

  const commands: [args: string[], line: RegExp, code: number][] = [
    [['exec'], /^boxoffice: no command/, 125],
    [['exec', '--thread', LONG, '--', 'true'], /^boxoffice: --thread: must be at most 256 .*request req_/, 125],
    [['exec', '--profile', 'nope', '--', 'true'], /^boxoffice: --profile: there is no profile "nope"/, 125],
    [['exec', '--api-key', 'secret\nkey', '--', 'true'], /^boxoffice: apiKey: must be printable ASCII(?!.*secret)/, 125],
    [['exec', '--broker', 'nonsense', '--', 'true'], /^boxoffice: broker \(--broker, BOXOFFICE_URL\): must be/, 125],
    [['exec', '--nope'], /^boxoffice: unknown option '--nope'/, 125],
    [['cp', 'mine:nope', 'x'], /^boxoffice: "nope" does not exist \(FILE_NOT_FOUND/, 1],
    [['cp', 'a', 'b'], /one of the two must be in a sandbox/, 1],
    [['sessions', '--api-key', 'wrong'], /^boxoffice: the credential is not a valid API key.*UNAUTHENTICATED/, 1],
    [['keys', 'revoke', 'nope'], /^boxoffice: no such key.*NOT_FOUND/, 1],
  ]
  const typed = commands.map((command) => [command[0].join(' ').slice(0, 60), ...command] as const)
  test.each(typed)('types %s: one line and its exit code', async (_, args, line, code) => {
    const ran = await runProgram(args, { BOXOFFICE_URL: stack.brokerUrl, BOXOFFICE_API_KEY: API_KEY })
    expect(ran.stderr.trimEnd().split('\n')).toHaveLength(1)
    expect(ran.stderr).toMatch(line)
    expect([ran.stdout, ran.code]).toEqual(['', code])
  })
})

describe('an agent that is gone', () => {
  test('new threads are refused, live ones come back with it, and nothing is left half-made', async () => {
    await using stack = await startStack({ provider: 'local' })
    const broker = brokerApi(stack.brokerUrl)
    const grant = await broker.ensure('before')
    await dataplane(grant, 'POST', '/exec', { command: 'echo kept > file' })
    await stack.agent().kill('SIGKILL')

    expectRefusal(await broker.negotiate({ thread_id: 'during', mode: 'ensure' }), 503, 'PROVIDER_UNAVAILABLE')
    expect((await liveSessions(stack.brokerUrl)).map(({ id }) => id)).toEqual([grant.session_id])
    expect((await broker.negotiate({ thread_id: 'during', mode: 'get' })).status).toBe(404)
    const ran = await runProgram(['exec', '--thread', 'during', '--', 'true'], {
      BOXOFFICE_URL: stack.brokerUrl,
      BOXOFFICE_API_KEY: API_KEY,
    })
    expect([ran.code, ran.stdout]).toEqual([125, ''])
    expect(ran.stderr).toMatch(/^boxoffice: .*\n$/)

    await stack.startAgent()
    expect((await dataplane(grant, 'POST', '/exec', { command: 'cat file' })).body).toMatchObject({ stdout: 'kept\n', exit_code: 0 })
    const after = await broker.ensure('during')
    expect((await dataplane(after, 'POST', '/exec', { command: 'echo new' })).body).toMatchObject({ stdout: 'new\n' })
  })
})
