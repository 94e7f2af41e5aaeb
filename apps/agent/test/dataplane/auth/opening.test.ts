import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { TestDataplane } from '../../support/dataplane.ts'
import { endedAfterEach } from '../../support/ended-after-each.ts'
import { TestSocket } from '../../support/socket.ts'

let dp: TestDataplane
const ended = endedAfterEach()

beforeAll(async () => {
  dp = await TestDataplane.start()
})
afterAll(() => dp[Symbol.asyncDispose]())

/** A socket with its token in the header. */
const connect = (): Promise<TestSocket> => ended(new TestSocket(`${dp.wsBase}/exec/ws`, 'json', { token: dp.token })).opened()

/** A socket without any credential. */
const anonymous = (path = '/exec/ws'): Promise<TestSocket> => ended(new TestSocket(dp.wsBase + path)).opened()

describe('opening', { tags: ['C-38', '4-56'] }, () => {
  test('with a header: auth_ok at once', async () => {
    const socket = await connect()
    expect(await socket.frame('auth_ok')).toMatchObject({
      session_id: dp.sandbox.sessionId,
      sandbox_id: dp.sandbox.id,
      granted_capabilities: ['fs_read', 'fs_write', 'shell', 'exec', 'ports'],
    })
  })

  test('with X-Api-Key', async () => {
    const socket = ended(new TestSocket(`${dp.wsBase}/exec/ws`, 'json', { headers: { 'X-Api-Key': dp.token } }))
    await socket.frame('auth_ok')
  })

  test('with an auth frame', async () => {
    const socket = await anonymous()
    socket.send({ type: 'auth', token: dp.token })
    await socket.frame('auth_ok')
  })

  test('with a subprotocol, of which only the first is echoed', async () => {
    const { WebSocket } = await import('ws')
    const ws = new WebSocket(`${dp.wsBase}/exec/ws`, ['boxoffice.v1', `bearer.${dp.token}`])
    const message = await new Promise((resolve) => ws.on('message', (data) => resolve(JSON.parse(String(data)))))
    expect(message).toMatchObject({ type: 'auth_ok' })
    expect(ws.protocol).toBe('boxoffice.v1')
    ws.terminate()
  })

  test('a bad header is refused before the upgrade', async () => {
    const refusals: [string, number, string][] = [
      ['nonsense', 401, 'UNAUTHENTICATED'],
      [await dp.sign({ exp: Math.floor(Date.now() / 1000) - 60 }), 401, 'TOKEN_EXPIRED'],
      [await dp.sign({ aud: 'sb_other', sandbox_id: 'sb_other' }), 403, 'FORBIDDEN'],
      [await dp.sign({ gen: 0 }), 410, 'SESSION_EXPIRED'],
      [await dp.sign({ sid: 'ssn_other' }), 403, 'FORBIDDEN'],
    ]
    for (const [token, status, code] of refusals) {
      const { status: got, body } = await new TestSocket(`${dp.wsBase}/exec/ws`, 'json', { token }).refused()
      expect([got, body.error.code]).toEqual([status, code])
    }
  })

  test.each([
    ['another actor', { sub: 'agent' }],
    ['another session', { sid: 'ssn_other' }],
    ['another session with its own sandbox', { sid: 'ssn_other', aud: 'sb_other', sandbox_id: 'sb_other' }],
    ['another session that has ended', { sid: 'ssn_ended', aud: 'sb_ended', sandbox_id: 'sb_ended' }],
  ])('a frame with the token of %s than the header: 4401', async (_name, claims) => {
    dp.revocations.apply({ sessions: [{ session_id: 'ssn_ended', reason: 'released', until: Date.now() / 1000 + 600 }], tokens: [] })
    const socket = await connect()
    socket.send({ type: 'auth', token: await dp.sign(claims) })
    expect((await socket.closed).code).toBe(4401)
    expect(socket.errorCode).toBe('UNAUTHENTICATED')
  })

  test('a foreign origin is refused, the same origin is not; cookies and queries never authenticate', { tags: ['C-69'] }, async () => {
    expect(
      (await new TestSocket(`${dp.wsBase}/exec/ws`, 'json', { token: dp.token, origin: 'http://evil.example' }).refused()).status,
    ).toBe(403)
    const same = ended(new TestSocket(`${dp.wsBase}/exec/ws`, 'json', { token: dp.token, origin: dp.origin }))
    await same.frame('auth_ok')
    const query = await new TestSocket(`${dp.wsBase}/exec/ws?token=${dp.token}`).refused()
    expect([query.status, query.body.error.code]).toEqual([401, 'UNAUTHENTICATED'])
  })

  test('an unknown route is 404', async () => {
    expect((await new TestSocket(`${dp.wsBase}/nonesuch/ws`, 'json', { token: dp.token }).refused()).status).toBe(404)
    expect((await new TestSocket(`${dp.wsBase}/v1/exec/ws`, 'json', { token: dp.token }).refused()).status).toBe(404)
  })

  test('no auth for 5 s: error and 4401', { tags: ['4-56'], timeout: 120_000 }, async () => {
    const socket = await anonymous()
    const started = performance.now()
    expect((await socket.closed).code).toBe(4401)
    expect(socket.errorCode).toBe('UNAUTHENTICATED')
    expect(performance.now() - started).toBeGreaterThan(4500)
  })

  test.each(['start', 'stdin', 'resize', 'signal', 'close'])(
    '%s before auth: 4401 and nothing starts',
    { tags: ['4-124'] },
    async (type) => {
      const socket = await anonymous()
      socket.send({ type, command: 'touch /tmp/never', data: 'x', signal: 'TERM', cols: 1, rows: 1 })
      expect((await socket.closed).code).toBe(4401)
      expect(socket.errorCode).toBe('UNAUTHENTICATED')
    },
  )

  test('ping is answered before auth, but not without end', { tags: ['4-128', 'C-68'] }, async () => {
    const socket = await anonymous()
    socket.send({ type: 'ping', id: 7, ts: 'then' })
    expect(await socket.frame('pong')).toEqual({ type: 'pong', id: 7, ts: 'then' })
    for (let i = 0; i < 30; i++) socket.send({ type: 'ping' })
    expect((await socket.closed).code).toBe(4429)
  })

  test('exec needs exec, shell needs shell: one does not grant the other', { tags: ['4-105'] }, async () => {
    for (const [kind, caps, closes] of [
      ['exec', ['shell', 'fs_read', 'fs_write'], true],
      ['shell', ['exec'], true],
      ['exec', ['exec'], false],
      ['shell', ['shell'], false],
    ] as const) {
      const socket = ended(new TestSocket(`${dp.wsBase}/${kind}/ws`, 'json', { token: await dp.sign({ caps: [...caps] }) }))
      await socket.opened()
      socket.start(kind === 'exec' ? { command: 'true' } : {})
      if (closes) {
        expect((await socket.closed).code).toBe(4403)
        expect(socket.errorCode).toBe('CAPABILITY_DENIED')
      } else await socket.frame('ready')
    }
  })
})
