import { EgressPolicy, type Network, type Profile } from '@boxoffice/protocol'
import type { ProviderCapabilities } from '../../sandbox/provider.ts'

type Abilities = Pick<ProviderCapabilities, 'network' | 'egress'>

/** What a sandbox of the profile gets: `on` is served by the proxy where the provider has no network of its own. */
export const effectiveNetwork = ({ network }: Pick<Profile, 'network'>, abilities: Abilities): Network =>
  network === 'on' && !abilities.network && abilities.egress ? 'proxy' : network

/**
 * Where programs of such a sandbox may connect to through the proxy; undefined where it has none. A profile that says nothing allows
 * nothing with `proxy`, and every public address on ports 80 and 443 with `on`.
 */
export const egressPolicyOf = (profile: Pick<Profile, 'network' | 'egress'>, abilities: Abilities): EgressPolicy | undefined => {
  if (effectiveNetwork(profile, abilities) !== 'proxy') return undefined
  return profile.egress ?? EgressPolicy.parse(profile.network === 'on' ? { allow: ['*'] } : {})
}
