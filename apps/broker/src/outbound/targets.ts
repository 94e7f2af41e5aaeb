import { BlockList, isIP } from 'node:net'

/**
 * Which addresses the broker may dial for its configured URLs (JWKS, authorizer) [C-60]. What is not public may answer for
 * somebody else: a metadata service, an administration port. `loopback` is for a broker that itself listens there only.
 */
export type TargetPolicy = 'public' | 'loopback' | 'any'

const subnets = (...ranges: readonly (readonly [address: string, prefix: number])[]): BlockList => {
  const list = new BlockList()
  for (const [address, prefix] of ranges) list.addSubnet(address, prefix, address.includes(':') ? 'ipv6' : 'ipv4')
  return list
}

const LOOPBACK = subnets(['127.0.0.0', 8], ['::1', 128])

/** Private, link-local, shared, benchmark, multicast, reserved; and the IPv6 forms that carry an IPv4 address inside. */
const NOT_PUBLIC = subnets(
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['224.0.0.0', 3],
  ['::', 96],
  ['64:ff9b::', 32],
  ['100::', 64],
  ['2002::', 16],
  ['fc00::', 7],
  ['fe80::', 10],
  ['fec0::', 10],
  ['ff00::', 8],
)

/** Whether an IP address may be dialled. */
export function permits(policy: TargetPolicy, address: string): boolean {
  const family = isIP(address)
  if (family === 0) return false
  if (policy === 'any') return true
  const type = family === 6 ? 'ipv6' : 'ipv4'
  return (policy === 'loopback' && LOOPBACK.check(address, type)) || !NOT_PUBLIC.check(address, type)
}

/** The IP address that a URL names itself; undefined when its host is a name. */
export function literalAddress(url: URL): string | undefined {
  const host = url.hostname.replace(/^\[|\]$/g, '')
  return isIP(host) === 0 ? undefined : host
}
