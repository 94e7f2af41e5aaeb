import { describe, expect } from 'vitest'
import { connect } from '../src/index.ts'
import { API_KEY, envelope } from './fixture/fake-server.ts'
import { test } from './fixture/server-test.ts'

const NOBODY = 'http://127.0.0.1:9'

describe('[4-170, 4-171] a pre-negotiated session', () => {
  const rows = [
    { status: 404, code: 'NOT_FOUND', used: true },
    { status: 501, code: 'UNSUPPORTED', used: true },
    { status: 401, code: 'UNAUTHENTICATED', used: false },
    { status: 403, code: 'FORBIDDEN', used: false },
    { status: 404, code: 'SESSION_NOT_FOUND', used: false },
    { status: 409, code: 'SESSION_CONFLICT', used: false },
    { status: 410, code: 'SESSION_EXPIRED', used: false },
    { status: 429, code: 'RATE_LIMITED', used: false },
    { status: 503, code: 'PROVIDER_UNAVAILABLE', used: false },
  ]
  test.for(rows)('is used on $status $code: $used', async ({ status, code, used }, { server }) => {
    server.intercept = ({ path }) => (path === '/v1/sandbox/sessions' ? { status, json: envelope(code, 'no') } : undefined)
    const negotiating = server.client({ bootstrap: server.negotiated('thread-1') }).session('thread-1')
    if (used) expect((await negotiating).sandboxId).toBe('sb_1')
    else await expect(negotiating).rejects.toMatchObject({ code })
  })

  test('is used when nobody answers, and works', async ({ server }) => {
    server.onStart = (process) => {
      process.write('hi')
      process.exit()
    }
    using client = connect(NOBODY, { apiKey: API_KEY, bootstrap: server.negotiated('thread-1'), allowHosts: ['127.0.0.1'] })
    const run = await (await client.session('thread-1')).exec.start('echo hi')
    expect(await run.text()).toBe('hi')
    await run.exit
  })

  test('gives way to a broker that answers', async ({ server }) => {
    const bootstrap = { ...server.negotiated('thread-1'), session_id: 'ssn_old' }
    expect((await server.client({ bootstrap }).session('thread-1')).id).not.toBe('ssn_old')
  })

  test('[C-60] is refused for another thread, when it has run out, for another host, and when it is none', async ({ server }) => {
    const bootstrap = server.negotiated('thread-1')
    const trying = (value: unknown, allowHosts: string[] = ['127.0.0.1']) =>
      connect(NOBODY, { apiKey: API_KEY, bootstrap: value, allowHosts }).session('thread-1')
    const refused = { code: 'BOOTSTRAP_REFUSED' }
    await expect(trying({ ...bootstrap, thread_id: 'other' })).rejects.toMatchObject(refused)
    await expect(trying({ ...bootstrap, thread_id: null })).rejects.toMatchObject(refused)
    await expect(trying({ ...bootstrap, expires_at: '2026-01-01T00:00:00Z' })).rejects.toMatchObject({ code: 'TOKEN_EXPIRED' })
    const elsewhere = { ...bootstrap, sandbox: { ...bootstrap.sandbox, http_base_url: 'http://169.254.169.254/v1' } }
    await expect(trying(elsewhere)).rejects.toMatchObject(refused)
    await expect(trying(bootstrap, ['sandboxes.example'])).rejects.toMatchObject({ code: 'BOOTSTRAP_REFUSED' })
    await expect(trying({ ...bootstrap, sandbox: { ...bootstrap.sandbox, ws_base_url: 'file:///etc' } }, ['*'])).rejects.toMatchObject(
      refused,
    )
    await expect(trying({ token: 'x' })).rejects.toMatchObject(refused)
    await expect(trying('{}')).rejects.toMatchObject(refused)
  })
})
