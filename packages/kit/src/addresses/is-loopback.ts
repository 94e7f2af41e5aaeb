/**
 * Whether a host means this machine alone: `localhost`, 127.0.0.0/8, `::1`, and 127.0.0.0/8 in IPv6 form (`::ffff:127.0.0.1`,
 * `::ffff:7f00:1`), with or without the brackets of a URL. It decides who may work without authentication, so it is false for every
 * spelling that it does not know, and it never asks a name server.
 */
export function isLoopback(host: string): boolean {
  const name = /^\[(.*)\]$/.exec(host)?.[1]
  if (name === undefined && (host.toLowerCase() === 'localhost' || IPV4_LOOPBACK.test(host))) return true
  const address = name ?? host
  // Only an address comes as far as the URL parser, which gives each one its only spelling.
  if (!address.includes(':') || !IPV6_CHARACTERS.test(address)) return false
  const canonical = URL.parse(`http://[${address}]`)?.hostname
  return canonical !== undefined && (canonical === '[::1]' || MAPPED_LOOPBACK.test(canonical))
}

const OCTET = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)'
const IPV4_LOOPBACK = new RegExp(`^127(?:\\.${OCTET}){3}$`)
const IPV6_CHARACTERS = /^[\da-f:.]+$/i
/** 127 is 7f. */
const MAPPED_LOOPBACK = /^\[::ffff:7f[\da-f]{2}:[\da-f]{1,4}\]$/
