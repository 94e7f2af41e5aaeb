import { isIPv4, isIPv6 } from 'node:net'

/** An IP address in its only spelling. An IPv4 address that is mapped into IPv6 is that IPv4 address. */
export type IpAddress = { text: string; family: 4 | 6; bytes: Uint8Array }

/** Reads dotted IPv4, or IPv6 without brackets; undefined for anything else, zones included. */
export function parseAddress(text: string): IpAddress | undefined {
  if (isIPv4(text)) return ipv4(text.split('.').map(Number))
  // `isIPv6` takes a zone, which names an interface of this host.
  if (!isIPv6(text) || text.includes('%')) return undefined
  const canonical = URL.parse(`http://[${text}]`)?.hostname.slice(1, -1)
  if (canonical === undefined) return undefined
  const bytes = ipv6Bytes(canonical)
  return startsWith(bytes, MAPPED) ? ipv4(bytes.subarray(12)) : { text: canonical, family: 6, bytes }
}

/** The IPv4 address of the four bytes at `at`. */
export function embeddedIpv4({ bytes }: IpAddress, at: number): IpAddress {
  return ipv4(bytes.subarray(at, at + 4))
}

/** Whether an address begins with the first `bits` of `prefix`, which is a whole address or its first bytes. */
export function isWithin(bytes: Uint8Array, prefix: readonly number[], bits: number): boolean {
  for (let bit = 0; bit < bits; bit += 8) {
    const mask = bits - bit >= 8 ? 0xff : (0xff << (8 - (bits - bit))) & 0xff
    if ((((bytes[bit / 8] ?? 0) ^ (prefix[bit / 8] ?? 0)) & mask) !== 0) return false
  }
  return true
}

/** Of NAT64: the IPv4 address is in the last four bytes. */
export const NAT64 = [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0] as const

const MAPPED = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff] as const

const startsWith = (bytes: Uint8Array, prefix: readonly number[]): boolean => isWithin(bytes, prefix, prefix.length * 8)

function ipv4(octets: ArrayLike<number>): IpAddress {
  const bytes = Uint8Array.from(octets)
  return { text: bytes.join('.'), family: 4, bytes }
}

/** `canonical` is as the URL parser writes it: groups of hexadecimal digits, `::` at most once, no dots. */
function ipv6Bytes(canonical: string): Uint8Array {
  const [head = '', tail] = canonical.split('::')
  const before = head === '' ? [] : head.split(':')
  const after = tail === undefined || tail === '' ? [] : tail.split(':')
  const groups = [...before, ...new Array<string>(8 - before.length - after.length).fill('0'), ...after]
  const bytes = new Uint8Array(16)
  for (const [at, group] of groups.entries()) new DataView(bytes.buffer).setUint16(at * 2, Number.parseInt(group, 16))
  return bytes
}
