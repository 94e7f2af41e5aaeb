import type { TestPreviews } from '../../apps/agent/test/support/previews.ts'
import { quiet } from '../../apps/agent/test/support/sandbox.ts'
import { AGENT_PUBLIC_KEY } from '../../apps/agent/test/support/tokens.ts'
import { listen } from '../../apps/broker/src/http/server.ts'
import type { FoundPreview } from '../../apps/broker/src/previews/routes.ts'
import { createPreviewRelay } from '../../apps/broker/src/relay/previews.ts'

/** The broker's relay of previews, as the broker listens with it, before the one agent of `previews`, which is the host of every preview. */
export const startPreviewFront = async (previews: TestPreviews, trustedProxies: readonly string[]) => {
  const agent = { id: 'agt_test', relay: 'auto', provider: { isolation: 'none' }, publicKey: AGENT_PUBLIC_KEY }
  const relay = createPreviewRelay({
    routes: { find: async () => ({ agent: { ...agent, dataplaneUrl: previews.agentOrigin } }) as unknown as FoundPreview },
    exposed: false,
    trustedProxies,
    metrics: { observe: () => {}, refused: () => {} },
    log: quiet,
  })
  // As the agent of the test answers what is no preview.
  const nothing = { fetch: () => new Response(null, { status: 421 }) } as never
  const server = await listen(nothing, relay, { host: '127.0.0.1', port: 0, maxConnections: 8192 })
  return {
    port: server.port,
    async close(): Promise<void> {
      relay.closeSockets()
      await server.close()
      relay.close()
    },
  }
}
