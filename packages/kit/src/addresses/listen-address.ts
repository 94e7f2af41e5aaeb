export type ListenAddress = { host: string; port: number }

/** Reads `host:port`; an IPv6 host has brackets there, and none in the result. */
export function parseListenAddress(address: string): ListenAddress {
  const colon = address.lastIndexOf(':')
  return { host: withoutBrackets(address.slice(0, colon)), port: Number(address.slice(colon + 1)) }
}

/** A host as it stands in a URL: an IPv6 address in brackets. */
export const hostInUrl = (host: string): string => (host.includes(':') ? `[${withoutBrackets(host)}]` : host)

/** The URL by which the machine itself reaches what listens there: an address to listen on everywhere is none to connect to. */
export function localUrl({ host, port }: ListenAddress, secure: boolean): string {
  const name = host === '0.0.0.0' || withoutBrackets(host) === '::' ? '127.0.0.1' : hostInUrl(host)
  return `${secure ? 'https' : 'http'}://${name}:${port}`
}

const withoutBrackets = (host: string): string => host.replace(/^\[|\]$/g, '')
