import type { ResolvedBrokerConfig } from './config/config.ts'
import type { Store } from './store/store.ts'
import { Credentials } from './tokens/credentials.ts'
import { TokenIssuer } from './tokens/issuer.ts'
import type { SigningKeys } from './tokens/keys.ts'
import { sessionTokenVerifier } from './tokens/verifier.ts'

export type TokenParts = {
  settings: ResolvedBrokerConfig
  store: Pick<Store, 'brokers'>
  keys: SigningKeys
  /** Milliseconds of the database's clock. */
  now: () => number
  monotonic: () => number
  /** The broker's public URL. */
  url: string
}

/** What signs tokens, in the name that all brokers of the database share, and what tells true ones from others. */
export async function openTokens({ settings, store, keys, now, monotonic, url }: TokenParts) {
  const issuer = new TokenIssuer(keys, settings.tokenTtl, now, monotonic)
  issuer.issuer = await store.brokers.issuer(url, !settings.sharedDataDir || settings.publicUrl !== undefined)
  const verify = sessionTokenVerifier({ keys, issuer: () => issuer.issuer, now })
  return { issuer, credentials: new Credentials({ verify, keys, issuer, now }) }
}
