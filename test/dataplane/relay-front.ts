import { createPrivateKey } from 'node:crypto'
import type { TestPlane } from '../../apps/agent/test/support/dataplane.ts'
import { quiet } from '../../apps/agent/test/support/sandbox.ts'
import { AGENT_PUBLIC_KEY, ISSUER } from '../../apps/agent/test/support/tokens.ts'
import { relayPath } from '../../apps/broker/src/agents/endpoint.ts'
import type { PlacedSession } from '../../apps/broker/src/domain/session.ts'
import { listen } from '../../apps/broker/src/http/server.ts'
import { createRelay, type Relay } from '../../apps/broker/src/relay/relay.ts'
import { createSessionAuthorizer } from '../../apps/broker/src/relay/session-authorizer.ts'
import type { UploadSpliceOptions } from '../../apps/broker/src/relay/upload-splice.ts'
import type { AgentRecord } from '../../apps/broker/src/store/store.ts'
import { Credentials } from '../../apps/broker/src/tokens/credentials.ts'
import { TokenIssuer } from '../../apps/broker/src/tokens/issuer.ts'
import { sessionTokenVerifier } from '../../apps/broker/src/tokens/verifier.ts'

/** The broker's relay, as the broker listens with it, before one dataplane under test. */
export const startRelayFront = async ({ sandbox, issuer, origin, corsOrigins }: TestPlane, splice?: UploadSpliceOptions) => {
  const sandboxes = new Map([[sandbox.sessionId, sandbox.id]])
  const jwk = { ...issuer.jwks.keys[0], alg: 'EdDSA', use: 'sig' } as never
  const keys = {
    jwks: issuer.jwks,
    reload: () => Promise.resolve(),
    has: (kid: string) => kid === issuer.kid,
    wasWithdrawn: () => false,
    current: {
      kid: issuer.kid,
      activeAt: 0,
      privateKey: createPrivateKey(issuer.privateKey.export({ format: 'pem', type: 'pkcs8' })),
      jwk,
    },
  }
  const now = Date.now
  const tokens = new TokenIssuer(keys, 600, now)
  tokens.issuer = ISSUER
  const verify = sessionTokenVerifier({ keys, issuer: () => ISSUER, now })
  const sessionOf = (id: string) => {
    const sandboxId = sandboxes.get(id)
    return sandboxId === undefined ? undefined : ({ id, sandboxId, state: 'active', agentId: 'agt_test', incarnation: 1 } as PlacedSession)
  }
  const relay: Relay = createRelay({
    authorizer: createSessionAuthorizer({
      credentials: new Credentials({ verify, keys, issuer: tokens, now }),
      store: {
        sessions: { byId: async (id) => sessionOf(id) },
        agents: { byId: async (id) => ({ id, dataplaneUrl: origin, relay: 'auto', publicKey: AGENT_PUBLIC_KEY }) as AgentRecord },
      },
      exposed: false,
    }),
    corsOrigins,
    metrics: { observe: () => {}, refused: () => {} },
    log: quiet,
    splice,
  })
  const nothing = { fetch: () => new Response(null, { status: 404 }) } as never
  const server = await listen(nothing, relay, { host: '127.0.0.1', port: 0, maxConnections: 8192 })
  const url = `http://127.0.0.1:${server.port}`
  return {
    origin: url,
    base: url + relayPath(sandbox.sessionId),
    /** Another session, which has this sandbox. */
    add(sessionId: string, sandboxId: string): string {
      sandboxes.set(sessionId, sandboxId)
      return url + relayPath(sessionId)
    },
    async close(): Promise<void> {
      await relay.closeSockets()
      await server.close()
      relay.close()
    },
  }
}
