import { PrincipalLimit, RateLimit, type Share } from '@boxoffice/node-http'
import { type ResolvedBrokerConfig, targetPolicy } from '../config/config.ts'
import { type OutboundCall, outboundCall } from '../outbound/call.ts'
import type { Store } from '../store/store.ts'
import type { Authorizer } from './authorizer.ts'
import { authorizerOf } from './authorizers.ts'
import { readJwks } from './jwt/read-jwks.ts'
import { RemoteKeys } from './jwt/remote-keys.ts'
import { OidcVerifier } from './oidc.ts'
import { Principals } from './principals.ts'

export type AccessOptions = {
  settings: ResolvedBrokerConfig
  store: Store
  /** Whether the broker itself signs with the key of this id: what it has signed is nobody's identity. */
  isOwnKey: (kid: string) => boolean
  /** Of the limits of one broker, where several serve clients. */
  share: Share
  now: () => number
  monotonic: () => number
}

/** Who calls, who may use a scope, and how often. */
export type Access = {
  principals: Principals
  authorizer: Authorizer
  /** Wrong credentials, by address. */
  authFailures: RateLimit
  /** Requests with a principal. */
  controlLimit: PrincipalLimit
  /** New sessions. */
  createLimit: PrincipalLimit
}

export function createAccess({ settings, store, isOwnKey, share, now, monotonic }: AccessOptions): Access {
  const rates = settings.rateLimits
  const call = outboundCall(targetPolicy(settings), settings.authorizerTimeoutMs)
  return {
    principals: new Principals(store.keys, settings.apiKey, identityProviderOf({ settings, call, isOwnKey, now, monotonic })),
    authorizer: authorizerOf(settings, call, now, monotonic),
    authFailures: new RateLimit(rates.authFailures, monotonic, share),
    controlLimit: new PrincipalLimit('control', { principal: rates.controlPerPrincipal, tenant: rates.controlPerTenant }, monotonic, share),
    createLimit: new PrincipalLimit('create', { principal: rates.createPerPrincipal, tenant: rates.createPerTenant }, monotonic, share),
  }
}

type ProviderOptions = Pick<AccessOptions, 'settings' | 'isOwnKey' | 'now' | 'monotonic'> & { call: OutboundCall }

/** Undefined when the configuration names no identity provider. */
function identityProviderOf({ settings, call, isOwnKey, now, monotonic }: ProviderOptions): OidcVerifier | undefined {
  const { oidcIssuer: issuer, oidcJwksUrl, oidcAudience: audience, oidcAlgorithms: algorithms, oidcTenant: tenant } = settings
  if (issuer === undefined || oidcJwksUrl === undefined || audience === undefined) return undefined
  const keys = new RemoteKeys('the identity provider', readJwks(oidcJwksUrl, call), monotonic)
  return new OidcVerifier({ issuer, audience, algorithms, tenant, keys, now, claims: settings.oidcClaims, isOwnKey })
}
