import { WebSocket } from 'ws'

type Network = { fetch: typeof fetch; WebSocket: new (url: string, protocols: string[]) => WebSocket }

/**
 * A network on which this broker's public URL leads to its own listener: behind a proxy, or a firewall, the broker need not be able
 * to reach itself from outside.
 */
export function ownNetwork(publicUrl: string, localUrl: string): Network {
  const local = (url: string): string => (url.startsWith(`${publicUrl}/`) ? localUrl + url.slice(publicUrl.length) : url)
  const localSocket = (url: string): string => {
    const [from, to] = [`ws${publicUrl.slice(4)}`, `ws${localUrl.slice(4)}`]
    return url.startsWith(`${from}/`) ? to + url.slice(from.length) : url
  }
  return {
    fetch: (input, init) => fetch(typeof input === 'string' ? local(input) : input, init),
    WebSocket: class extends WebSocket {
      constructor(url: string, protocols: string[]) {
        super(localSocket(url), protocols, { perMessageDeflate: false })
      }
    },
  }
}
