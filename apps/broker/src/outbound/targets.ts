import { isIP } from 'node:net'
import { isLoopback } from '@boxoffice/kit/is-loopback'
import ipaddr from 'ipaddr.js'

/**
 * Which addresses the broker may dial for its configured URLs (JWKS, authorizer) [C-60]. What is not public may answer for
 * somebody else: a metadata service, an administration port. `loopback` is for a broker that itself listens there only.
 */
export type TargetPolicy = 'public' | 'loopback' | 'any'

/** All of IPv6 that is given to anybody; outside are forms that carry an IPv4 address inside, and those that the list does not know. */
const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR('2000::/3')

/** Whether an IP address may be dialled. */
export function permits(policy: TargetPolicy, address: string): boolean {
  if (isIP(address) === 0) return false
  if (policy === 'any') return true
  // An IPv4 address in IPv6 form is that IPv4 address.
  const parsed = ipaddr.process(address)
  const range = parsed.range()
  if (policy === 'loopback' && isLoopback(address)) return true
  return range === 'unicast' && (parsed instanceof ipaddr.IPv4 || parsed.match(GLOBAL_UNICAST))
}

/** The IP address that a URL names itself; undefined when its host is a name. */
export function literalAddress(url: URL): string | undefined {
  const host = url.hostname.replace(/^\[|\]$/g, '')
  return isIP(host) === 0 ? undefined : host
}
