import { forwardedAddress } from '@boxoffice/kit/forwarded-address'

/** What the HTTP server tells about a connection. */
export type Connection = { incoming: { socket: { remoteAddress?: string | undefined } }; outgoing?: { destroy(): void } }
/** What an address is found by; a context of Hono is one. */
export type Asked = { env?: Connection; req: { header(name: string): string | undefined } }
export type AddressOf = (asked: Asked) => string

/** The caller's address; `X-Forwarded-For` counts only when the peer is a trusted proxy, and then from the right [C-43]. */
export function clientAddress(trustedProxies: readonly string[]): AddressOf {
  const trusted = new Set(trustedProxies)
  return (c) => forwardedAddress(c.env?.incoming?.socket.remoteAddress, c.req.header('x-forwarded-for'), trusted)
}
