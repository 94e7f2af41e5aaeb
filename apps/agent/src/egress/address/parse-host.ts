import { domainToASCII } from 'node:url'
import { embeddedIpv4, type IpAddress, isWithin, NAT64, parseAddress } from './ip-address.ts'

/** A host as policies and connections name it, in its only spelling. */
export type Host = { name: string; address?: undefined } | { name?: undefined; address: IpAddress }

/**
 * Reads the host of a target, of CONNECT, of an absolute URL or of SOCKS5: a name (case, one dot at its end and IDNA are normalised) or an IP
 * address in any notation that some resolver or parser takes: decimal, hexadecimal, octal, short, mapped into IPv6, NAT64, with brackets
 * where it is IPv6. Undefined for everything else, IPv6 zones included.
 */
export function parseHost(text: string): Host | undefined {
  if (text.length === 0 || text.length > 260) return undefined
  const inner = /^\[(.*)\]$/.exec(text)?.[1]
  if (text.includes(':')) return ofAddress(parseAddress(inner ?? text))
  if (FORBIDDEN.test(text)) return undefined
  // It has the rules of URLs: 0x7f.1 and 2130706433 become 127.0.0.1, full-width digits and dots become plain ones.
  const ascii = domainToASCII(text).replace(/\.$/, '')
  const address = parseAddress(ascii)
  if (address !== undefined) return { address }
  return ascii.length <= 253 && NAME.test(ascii) ? { name: ascii } : undefined
}

/** As text that `parseHost` takes: IPv6 with brackets. */
export const hostText = (host: Host): string =>
  host.address === undefined ? host.name : host.address.family === 6 ? `[${host.address.text}]` : host.address.text

/** What a URL would decode or cut off, and what no host has. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const FORBIDDEN = /[\x00-\x20%/\\?#@[\]<>^|"`{}\x7f]/
const LABEL = '[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?'
/** The last label is not a number: such names are addresses to some resolvers. */
const NAME = new RegExp(`^(?:${LABEL}\\.)*(?!\\d+$|0x[0-9a-f]*$)${LABEL}$`)

function ofAddress(address: IpAddress | undefined): Host | undefined {
  if (address === undefined) return undefined
  return { address: address.family === 6 && isWithin(address.bytes, NAT64, 96) ? embeddedIpv4(address, 12) : address }
}
