import { type Host, parseHost } from '../address/parse-host.ts'
import { BadHead, type HttpHead } from './http-head.ts'

export type HostAndPort = { host: Host; port: number }

/** Reads the target of CONNECT: `host:port`. Throws `BadHead`. */
export function connectTarget(target: string): HostAndPort {
  const [, host = '', port = ''] = /^(.+):(\d{1,5})$/.exec(target) ?? []
  return hostAndPort(host, port)
}

/** Reads the target of a request to a proxy: `http://host[:port]/path`. Throws `BadHead`. */
export function absoluteTarget(target: string): HostAndPort & { path: string } {
  const [, authority, path] = /^http:\/\/([^/?#]*)([^#]*)$/i.exec(target) ?? []
  if (authority === undefined || path === undefined)
    throw new BadHead('this is a proxy: it takes CONNECT, http:// with the whole URL, and SOCKS5')
  const [, host = '', port = '80'] = /^(\[[^\]]*\]|[^:]*)(?::(\d{1,5}))?$/.exec(authority) ?? []
  return { ...hostAndPort(host, port), path: path.startsWith('/') ? path : `/${path}` }
}

/**
 * The head as the forwarder gets it: without `Proxy-*`, and the last one of its connection, because the next request of the client may be for
 * another host. An upgrade stays as it is: no request follows it.
 */
export function forwardedHead(head: HttpHead): HttpHead {
  const isUpgrade = head.headers.some(([name]) => name === 'upgrade')
  const kept = head.headers.filter(
    ([name]) => !name.startsWith('proxy-') && (isUpgrade || (name !== 'connection' && name !== 'keep-alive')),
  )
  return { ...head, headers: isUpgrade ? kept : [...kept, ['connection', 'close']] }
}

function hostAndPort(hostPart: string, portPart: string): HostAndPort {
  // An address of IPv6 has brackets here: without them its last group would be a port.
  const host = hostPart.includes(':') && !hostPart.startsWith('[') ? undefined : parseHost(hostPart)
  const port = Number(portPart)
  if (host === undefined || port < 1 || port > 65_535) throw new BadHead('the target is no host with a port')
  return { host, port }
}
