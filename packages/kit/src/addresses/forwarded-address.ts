import { plainAddress } from './plain-address.ts'

/**
 * The address of who asks: the peer, and behind a trusted proxy the last one of `X-Forwarded-For` that is none. What stands before it is
 * the client's own say.
 */
export const forwardedAddress = (peer: string | undefined, forwardedFor: string | undefined, trusted: ReadonlySet<string>): string => {
  const plain = plainAddress(peer ?? 'unknown')
  if (!trusted.has(plain)) return plain
  const forwarded = (forwardedFor ?? '').split(',').map((part) => plainAddress(part.trim()))
  return forwarded.findLast((address) => address !== '' && !trusted.has(address)) ?? plain
}
