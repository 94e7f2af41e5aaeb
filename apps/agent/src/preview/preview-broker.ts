import { BoxofficeError, type PreviewGrant, type PreviewRoute } from '@boxoffice/protocol'
import type { AgentCredential, BrokerClient } from '../broker-link/broker-client.ts'

/** What previews ask of the broker. Failures are BACKEND_UNAVAILABLE: that the broker takes the agent for nobody is no news for a client. */
export type PreviewBroker = {
  ask: (hostname: string) => Promise<PreviewRoute | null>
  exchange: (hostname: string, code: string) => Promise<PreviewGrant>
}

/** `credential`: undefined until the agent has registered. */
export const previewBroker = (
  broker: Pick<BrokerClient, 'preview' | 'enterPreview'>,
  credential: () => AgentCredential | undefined,
): PreviewBroker => {
  const asked = async <T>(ask: (agent: AgentCredential) => Promise<T>): Promise<T> => {
    const agent = credential()
    if (agent === undefined) throw unavailable()
    return ask(agent).catch((cause: unknown) => {
      throw unavailable(cause)
    })
  }
  return {
    ask: (hostname) => asked((agent) => broker.preview(agent, hostname)),
    async exchange(hostname, code) {
      const grant = await asked((agent) => broker.enterPreview(agent, hostname, code))
      if (grant === null) throw new BoxofficeError('UNAUTHENTICATED', 'The link is used, too old, or for another preview')
      return grant
    },
  }
}

const unavailable = (cause?: unknown): BoxofficeError =>
  new BoxofficeError('BACKEND_UNAVAILABLE', 'The broker cannot be asked for this preview now; try again', { retryAfter: 2, cause })
