import { connect, type Session } from '@boxoffice/client'
import { TestDataplane } from '../../../apps/agent/test/support/dataplane.ts'
import { type CuttableProxy, startProxy } from '../../e2e/support/proxy.ts'
import { startRelayFront } from '../relay-front.ts'

const BROKER = 'http://broker.test'

export type SdkSession = AsyncDisposable & {
  plane: TestDataplane
  session: Session
  /** Between the SDK and the way that was negotiated. */
  proxy: CuttableProxy
  /** How often this was asked for, as `POST /exec`. */
  asked(what: string): number
}

/**
 * A session of the SDK on a dataplane under test, by a hop that a test can cut or silence. `mode` is the way that the broker
 * gives; `fallback` whether it has a relay for a client whose direct way leads nowhere.
 */
export const startSdkSession = async (mode: 'direct' | 'relay', { fallback = false } = {}): Promise<SdkSession> => {
  const plane = await TestDataplane.start()
  const { sandbox, issuer, origin } = plane
  const relay = await startRelayFront({ sandbox, issuer, origin, corsOrigins: [] })
  const proxy = await startProxy()
  const [base, front] = mode === 'direct' ? [plane.base, plane.origin] : [relay.base, relay.origin]
  proxy.setTarget(Number(new URL(front).port))
  const negotiated = base.replace(front, `http://127.0.0.1:${proxy.port}`)

  const requests: string[] = []
  const answer = async (request: { relay?: string }): Promise<Response> => {
    if (request.relay !== 'always') return Response.json(sessionAt(plane, negotiated, mode))
    return fallback ? Response.json(sessionAt(plane, relay.base, 'relay')) : Response.json({}, { status: 503 })
  }
  const client = connect(BROKER, {
    apiKey: 'bxo_for-a-broker-that-is-none',
    fetch: (input, init) => {
      const { origin: to, pathname } = new URL(String(input))
      if (to === BROKER) return answer(JSON.parse(String(init?.body)))
      requests.push(`${init?.method} ${pathname.split('/v1').at(-1)}`)
      return fetch(input, init)
    },
  })
  return {
    plane,
    session: await client.session('thread-1'),
    proxy,
    asked: (what) => requests.filter((request) => request === what).length,
    async [Symbol.asyncDispose]() {
      client.close()
      await proxy.close()
      await relay.close()
      await plane[Symbol.asyncDispose]()
    },
  }
}

const sessionAt = ({ sandbox, token }: TestDataplane, base: string, mode: 'direct' | 'relay') => {
  const expires_at = new Date(Date.now() + 600_000).toISOString()
  const at = { http_base_url: base, ws_base_url: base.replace('http:', 'ws:') }
  return {
    ...{ session_id: sandbox.sessionId, thread_id: 'thread-1', token, expires_at, token_type: 'Bearer', warnings: [] },
    sandbox: { id: sandbox.id, provider: 'test', ...at },
    dataplane: { ...at, mode },
    credentials: { token_type: 'Bearer', access_token: token, expires_at, granted_capabilities: ['exec', 'fs_read', 'fs_write'] },
    binding: {
      ...{ id: sandbox.sessionId, scope: { type: 'thread', id: 'thread-1' }, sandbox_id: sandbox.id, provider: 'test', state: 'active' },
      ...{ lease_expires_at: null, created_at: expires_at, profile: 'default', isolation: 'none', labels: {}, generation: 1, reason: null },
    },
    policy: { idle_timeout_seconds: 1, hard_ttl_seconds: 1, lease_seconds: 1, stop_after_seconds: 1, on_lease_expiry: 'suspend' },
  }
}
