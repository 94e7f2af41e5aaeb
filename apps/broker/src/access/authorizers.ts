import { withoutSlash } from '@boxoffice/kit/without-slash'
import type { ResolvedBrokerConfig } from '../config/config.ts'
import type { OutboundCall } from '../outbound/call.ts'
import { type Authorizer, claimAuthorizer } from './authorizer.ts'
import { langgraphAuthorizer } from './langgraph.ts'
import { RemoteResponses } from './remote-responses.ts'
import { webhookAuthorizer } from './webhook.ts'

/** The authorizer that the configuration names. */
export function authorizerOf(config: ResolvedBrokerConfig, call: OutboundCall, now: () => number, monotonic: () => number): Authorizer {
  const { authorizer: name, authorizerUrl = '', authorizerSecret: secret = '', authorizerCache: cacheSeconds } = config
  if (name === 'claim') return claimAuthorizer
  const answers = new RemoteResponses({ name, cacheSeconds, monotonic })
  if (name === 'langgraph') return langgraphAuthorizer(withoutSlash(authorizerUrl), call, answers)
  return webhookAuthorizer({ url: authorizerUrl, secret, now }, call, answers)
}
