import { embeddedIpv4, type IpAddress, isWithin, NAT64 } from './ip-address.ts'

/** What an address is for. Programs of a sandbox reach `public`, and `private` where the policy says so; never the others. */
export type AddressClass =
  | 'public'
  | 'private'
  | 'loopback'
  | 'link_local'
  | 'metadata'
  | 'unspecified'
  | 'multicast'
  | 'shared'
  | 'reserved'

/** Classifies one address. One that carries an IPv4 address inside (NAT64, 6to4) is what that IPv4 address is. */
export function classifyAddress(address: IpAddress): AddressClass {
  const { bytes, family } = address
  const found = (family === 4 ? IPV4 : IPV6).find(({ prefix, bits }) => isWithin(bytes, prefix, bits))
  if (found !== undefined) return found.class
  if (family === 4) return 'public'
  if (isWithin(bytes, NAT64, 96)) return classifyAddress(embeddedIpv4(address, 12))
  if (isWithin(bytes, [0x20, 0x02], 16)) return classifyAddress(embeddedIpv4(address, 2))
  // All of IPv6 that is given to anybody is 2000::/3; the rest is forms with an IPv4 address inside, and what is not known yet.
  return isWithin(bytes, [0x20], 3) ? 'public' : 'reserved'
}

type Range = { class: AddressClass; prefix: readonly number[]; bits: number }

const range = (name: AddressClass, prefix: readonly number[], bits: number): Range => ({ class: name, prefix, bits })

/** The first that fits counts. From the registries of special-purpose addresses (RFC 6890). */
const IPV4: readonly Range[] = [
  range('metadata', [169, 254, 169, 254], 32),
  range('metadata', [169, 254, 170, 2], 32),
  range('metadata', [100, 100, 100, 200], 32),
  range('metadata', [168, 63, 129, 16], 32),
  range('unspecified', [0], 8),
  range('private', [10], 8),
  range('shared', [100, 64], 10),
  range('loopback', [127], 8),
  range('link_local', [169, 254], 16),
  range('private', [172, 16], 12),
  range('reserved', [192, 0, 0], 24),
  range('reserved', [192, 0, 2], 24),
  range('reserved', [192, 31, 196], 24),
  range('reserved', [192, 52, 193], 24),
  range('reserved', [192, 88, 99], 24),
  range('private', [192, 168], 16),
  range('reserved', [192, 175, 48], 24),
  range('reserved', [198, 18], 15),
  range('reserved', [198, 51, 100], 24),
  range('reserved', [203, 0, 113], 24),
  range('multicast', [224], 4),
  range('reserved', [240], 4),
]

const IPV6: readonly Range[] = [
  range('metadata', [0xfd, 0, 0x0e, 0xc2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x54], 128),
  range('metadata', [0xfd, 0x20, 0, 0xce, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x54], 128),
  range('unspecified', [], 128),
  range('loopback', [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], 128),
  range('private', [0xfc], 7),
  range('link_local', [0xfe, 0x80], 10),
  // Of sites, before there were unique local addresses.
  range('reserved', [0xfe, 0xc0], 10),
  range('multicast', [0xff], 8),
  // Teredo, benchmarks, ORCHID and other assignments for protocols; documentation, twice.
  range('reserved', [0x20, 0x01, 0, 0], 23),
  range('reserved', [0x20, 0x01, 0x0d, 0xb8], 32),
  range('reserved', [0x3f, 0xff, 0], 20),
]
