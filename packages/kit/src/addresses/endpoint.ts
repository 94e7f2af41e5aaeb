import { withoutSlash } from './without-slash.ts'

/** Where a server is, as those who connect need it. */
export type Endpoint = {
  /** With TLS. */
  secure: boolean
  /** A host without brackets, as `net.connect` wants it; or the file of a unix socket. */
  address: { host: string; port: number } | { socketPath: string }
  /** The value of the header `Host`. */
  authority: string
  /** What precedes each path there; no slash at its end. */
  basePath: string
}

/** Reads `unix:/path` or `http(s)://host[:port][/base]`. Throws `TypeError` for what is no URL. */
export function parseEndpoint(url: string): Endpoint {
  if (url.startsWith(UNIX)) return { secure: false, address: { socketPath: url.slice(UNIX.length) }, authority: 'localhost', basePath: '' }
  const { protocol, hostname, port, pathname, host: authority } = new URL(url)
  const secure = protocol === 'https:'
  const address = { host: hostname.replace(/^\[|\]$/g, ''), port: port === '' ? (secure ? 443 : 80) : Number(port) }
  return { secure, address, authority, basePath: withoutSlash(pathname) }
}

const UNIX = 'unix:'
