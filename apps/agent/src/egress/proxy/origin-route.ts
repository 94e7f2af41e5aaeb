import type { Duplex } from 'node:stream'
import { classifyAddress } from '../address/classify-address.ts'
import { dialAddresses } from '../address/dial-addresses.ts'
import { EgressRefusal } from '../address/egress-refusal.ts'
import type { IpAddress } from '../address/ip-address.ts'
import { type Host, hostText } from '../address/parse-host.ts'
import { resolveHost } from '../address/resolve-host.ts'
import type { EgressGrant, EgressRules } from '../policy/egress-rules.ts'
import { dialUpstream } from './dial-upstream.ts'
import type { EgressContext } from './egress-context.ts'

/** The way to one origin: addresses that were resolved and checked once. */
export type OriginRoute = {
  /** Addresses of private networks are among those that may be dialled. */
  readonly isPrivate: boolean
  /** Connects to one of the addresses. Throws `EgressRefusal` unreachable. */
  dial: () => Promise<Duplex>
}

/** Finds the way to a host. Throws `EgressRefusal`. Behind a proxy of the agent names are left to that proxy; addresses are checked. */
export async function routeTo(
  { host, port }: { host: Host; port: number },
  { anyAddress }: EgressGrant,
  { privateAddresses }: EgressRules,
  context: EgressContext,
): Promise<OriginRoute> {
  const { resolve, ownAddresses, limits } = context
  const upstream = context.upstream?.({ host: hostText(host), port })
  const isLeftToProxy = upstream !== undefined && host.address === undefined
  const addresses = isLeftToProxy
    ? []
    : await resolveHost(host, { resolve, privateAddresses, anyAddress, ownAddresses, timeoutMs: limits.dialMs })
  const connect = (): Promise<Duplex> =>
    upstream === undefined
      ? dialAddresses(addresses, port, context.dial, limits.dialMs)
      : dialUpstream(upstream, { host: hostText(host), port }, limits.dialMs)
  return {
    isPrivate: !anyAddress && addresses.some(isPrivate),
    dial: async () => {
      try {
        const origin = await connect()
        context.count(origin)
        return origin
      } catch (error) {
        throw new Unreachable(hostText(host), error)
      }
    },
  }
}

/** No address of an origin took the connection. */
export class Unreachable extends EgressRefusal {
  /** Nobody listens there. */
  readonly isConnectionRefused: boolean

  constructor(host: string, error: unknown) {
    super('unreachable', host, `no connection: ${error instanceof Error ? error.message : 'unknown error'}`)
    this.isConnectionRefused = error instanceof Error && 'code' in error && error.code === 'ECONNREFUSED'
  }
}

const isPrivate = (address: IpAddress): boolean => classifyAddress(address) === 'private'
