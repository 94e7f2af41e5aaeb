import { plainAddress } from '@boxoffice/kit/plain-address'

/** What the HTTP server tells about a connection. */
export type Connection = { incoming: { socket: { remoteAddress?: string | undefined } }; outgoing?: { destroy(): void } }
/** What an address is found by; a context of Hono is one. */
export type Asked = { env?: Connection; req: { header(name: string): string | undefined } }
export type AddressOf = (asked: Asked) => string

/** The caller's address; `X-Forwarded-For` counts only when the peer is a trusted proxy, and then from the right [C-43]. */
export function clientAddress(trustedProxies: readonly string[]): AddressOf {
  const trusted = new Set(trustedProxies)
  return (c) => {
    const peer = plainAddress(c.env?.incoming?.socket.remoteAddress ?? 'unknown')
    if (!trusted.has(peer)) return peer
    const forwarded = (c.req.header('x-forwarded-for') ?? '').split(',').map((part) => plainAddress(part.trim()))
    return forwarded.findLast((address) => address !== '' && !trusted.has(address)) ?? peer
  }
}
