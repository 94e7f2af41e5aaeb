import { ErrorEnvelope, newSandboxId } from '@boxoffice/protocol'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { TestDataplane } from '../../support/dataplane.ts'

let dp: TestDataplane
beforeAll(async () => {
  dp = await TestDataplane.start({ corsOrigins: ['https://app.example'] })
})
afterAll(() => dp[Symbol.asyncDispose]())

const envelopeOf = async (response: Response): Promise<ErrorEnvelope> => ErrorEnvelope.parse(await response.json())

describe('every refusal is the envelope', { tags: ['4-160'] }, () => {
  const errors: [string, () => Promise<Response>, number, string][] = [
    ['no token', () => fetch(`${dp.base}/exec`, { method: 'POST' }), 401, 'UNAUTHENTICATED'],
    ['another scheme', () => fetch(`${dp.base}/exec`, { headers: { Authorization: 'Basic x' } }), 401, 'UNAUTHENTICATED'],
    ['[4-57] a token in the query', () => fetch(`${dp.base}/execs?token=${dp.token}`), 401, 'UNAUTHENTICATED'],
    [
      'a good X-Api-Key beside a bad Authorization [contract 7.4]',
      () => fetch(`${dp.base}/execs`, { headers: { Authorization: 'Bearer other', 'X-Api-Key': dp.token } }),
      401,
      'UNAUTHENTICATED',
    ],
    ['expired', async () => dp.fetch('/execs', { token: await dp.sign({ exp: Math.floor(Date.now() / 1000) - 6 }) }), 401, 'TOKEN_EXPIRED'],
    ['bad token and broken body [C-19]', () => dp.fetch('/exec', { method: 'POST', body: '{', token: 'x' }), 401, 'UNAUTHENTICATED'],
    ['[4-51] another sandbox', async () => dp.fetch('/execs', { token: await dp.sign({ aud: newSandboxId() }) }), 401, 'UNAUTHENTICATED'],
    [
      '[C-47] a valid token of another sandbox',
      async () => {
        const other = newSandboxId()
        return dp.fetch('/execs', { token: await dp.sign({ aud: other, sandbox_id: other }) })
      },
      403,
      'FORBIDDEN',
    ],
    ['another session', async () => dp.fetch('/execs', { token: await dp.sign({ sid: 'ssn_other' }) }), 403, 'FORBIDDEN'],
    ['an earlier incarnation', async () => dp.fetch('/execs', { token: await dp.sign({ gen: 0 }) }), 410, 'SESSION_EXPIRED'],
    [
      'a sandbox that is not here',
      async () => {
        const { base, claims } = dp.missing()
        return fetch(`${base}/execs`, { headers: { Authorization: `Bearer ${await dp.sign(claims)}` } })
      },
      503,
      'SANDBOX_LOST',
    ],
    ['an unknown route', () => dp.fetch('/nonesuch'), 404, 'NOT_FOUND'],
    ['/v1 twice', () => dp.fetch('/v1/exec', { method: 'POST' }), 404, 'NOT_FOUND'],
    ['no /v1', () => fetch(dp.base.replace(/v1$/, 'exec'), { headers: { Authorization: `Bearer ${dp.token}` } }), 404, 'NOT_FOUND'],
    ['no path', () => dp.fetch('/files/stat'), 400, 'INVALID_REQUEST'],
    ['a bad flag', () => dp.fetch('/files?path=x&recursive=maybe', { method: 'DELETE' }), 400, 'INVALID_REQUEST'],
    [
      'a body that is too large',
      () =>
        dp.fetch('/files/mkdir', {
          method: 'POST',
          body: JSON.stringify({ path: 'x'.repeat(70_000) }),
          headers: { 'Content-Type': 'application/json' },
        }),
      413,
      'PAYLOAD_TOO_LARGE',
    ],
    ['a method that is not there', () => dp.fetch('/exec'), 405, 'METHOD_NOT_ALLOWED'],
  ]

  test.each(errors)('%s', async (_name, send, status, code) => {
    const response = await send()
    const envelope = await envelopeOf(response)
    expect([response.status, envelope.error.code]).toEqual([status, code])
    expect(envelope.detail).toBe(envelope.error.message)
    expect(envelope.error.request_id).toBe(response.headers.get('X-Request-Id'))
    expect(envelope.error.retryable).toBe([423, 429, 503].includes(status))
    expect(response.headers.get('Retry-After') !== null).toBe(envelope.error.retryable)
    expect(response.headers.get('WWW-Authenticate')).toBe(status === 401 ? 'Bearer' : null)
    expect(JSON.stringify(envelope)).not.toContain(dp.token)
  })

  test('the hint about /v1', { tags: ['C-42'] }, async () => {
    expect((await envelopeOf(await dp.fetch('/v1/exec', { method: 'POST' }))).detail).toContain('already ends in /v1')
  })

  test('405 has Allow; HEAD works where GET does; a trailing slash is tolerated', { tags: ['C-80'] }, async () => {
    expect((await dp.fetch('/files', { method: 'PUT' })).headers.get('Allow')).toBe('GET, HEAD, DELETE')
    expect((await dp.fetch('/execs', { method: 'HEAD' })).status).toBe(200)
    expect((await dp.fetch('/execs/')).status).toBe(200)
  })

  test('a well-formed request id is kept, another is replaced', { tags: ['4-163'] }, async () => {
    expect((await dp.fetch('/execs', { headers: { 'X-Request-Id': 'req_test1' } })).headers.get('X-Request-Id')).toBe('req_test1')
    expect((await dp.fetch('/execs', { headers: { 'X-Request-Id': 'a b' } })).headers.get('X-Request-Id')).toMatch(/^req_[0-9a-f-]{36}$/)
  })
})

test('either header', { tags: ['4-55'] }, async () => {
  expect((await fetch(`${dp.base}/execs`, { headers: { 'X-Api-Key': dp.token } })).status).toBe(200)
  expect((await fetch(`${dp.base}/execs`, { headers: { Authorization: `bearer ${dp.token}` } })).status).toBe(200)
  expect((await dp.fetch('/execs', { headers: { 'X-Api-Key': dp.token } })).status).toBe(200)
  expect((await dp.fetch('/execs', { headers: { 'X-Api-Key': 'bxo_key_of_the_control_plane' } })).status).toBe(200)
})

test('only a listed origin gets CORS headers', { tags: ['C-69'] }, async () => {
  const preflight = (origin: string): Promise<Response> =>
    fetch(`${dp.base}/exec`, {
      method: 'OPTIONS',
      headers: { Origin: origin, 'Access-Control-Request-Method': 'POST', 'Access-Control-Request-Headers': 'authorization' },
    })
  const allowed = await preflight('https://app.example')
  expect([allowed.status, allowed.headers.get('Access-Control-Allow-Origin')]).toEqual([204, 'https://app.example'])
  const refused = await preflight('https://evil.example')
  expect([refused.status, refused.headers.get('Access-Control-Allow-Origin')]).toEqual([401, null])
  const answered = await dp.fetch('/execs', { headers: { Origin: 'https://app.example' } })
  expect(answered.headers.get('Access-Control-Allow-Origin')).toBe('https://app.example')
  expect((await dp.fetch('/execs', { headers: { Origin: 'https://evil.example' } })).headers.get('Access-Control-Allow-Origin')).toBeNull()
})

describe('the aliases', { tags: ['C-44'] }, () => {
  test('execute, upload, download', async () => {
    expect(await (await dp.post('/execute', { command: 'echo hi', timeout_secs: 5 })).json()).toMatchObject({
      stdout: 'hi\n',
      stderr: '',
      exit_code: 0,
    })
    const form = new FormData()
    form.append('file', new Blob(['content']), 'x')
    expect((await dp.fetch('/upload?path=alias.txt', { method: 'POST', body: form })).status).toBe(200)
    expect(await (await dp.fetch('/download?path=/workspace/alias.txt')).text()).toBe('content')
    expect((await dp.fetch('/download?path=alias.txt', { method: 'HEAD' })).headers.get('Content-Length')).toBe('7')
  })

  test('their errors say it at top level too', async () => {
    const response = await dp.fetch('/download?path=none')
    expect([response.status, await response.json()]).toMatchObject([
      404,
      { error_type: 'FILE_NOT_FOUND', message: '"none" does not exist', error: { code: 'FILE_NOT_FOUND' } },
    ])
  })
})

test("paths that are not the dataplane's are left to the host", async () => {
  expect((await fetch(`${dp.origin}/healthz`)).status).toBe(404)
  expect((await fetch(`${dp.origin}/healthz`)).headers.get('X-Request-Id')).toBeNull()
})
