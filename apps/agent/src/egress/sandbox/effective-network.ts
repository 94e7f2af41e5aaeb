import { type EgressPolicy, type Network, type Profile, policyOf } from '@boxoffice/protocol'
import type { ProviderCapabilities } from '../../sandbox/provider.ts'

type Abilities = Pick<ProviderCapabilities, 'network' | 'egress'>

/** What a sandbox of the profile gets: `on` is served by the proxy where the provider has no network of its own. */
export const effectiveNetwork = ({ network }: Pick<Profile, 'network'>, abilities: Abilities): Network =>
  network === 'on' && !abilities.network && abilities.egress ? 'proxy' : network

/** Where programs of such a sandbox may connect to through the proxy; undefined where it has none. */
export const egressPolicyOf = (profile: Pick<Profile, 'network' | 'egress'>, abilities: Abilities): EgressPolicy | undefined =>
  effectiveNetwork(profile, abilities) === 'proxy' ? policyOf(profile) : undefined
