import { lookup } from 'node:dns/promises'
import { networkInterfaces } from 'node:os'
import { withTimeout } from '@boxoffice/kit/with-timeout'
import { type AddressClass, classifyAddress } from './classify-address.ts'
import { EgressRefusal } from './egress-refusal.ts'
import { type IpAddress, parseAddress } from './ip-address.ts'
import { type Host, hostText } from './parse-host.ts'

/** All addresses of a name, in the order in which they are to be tried. */
export type Resolve = (name: string) => Promise<readonly string[]>

export type ResolveOptions = {
  resolve: Resolve
  /** Addresses of private networks are allowed. */
  privateAddresses: boolean
  /** Every address is allowed. */
  anyAddress: boolean
  /** Addresses of this host, canonical, which are refused although they are public or private. */
  ownAddresses: () => ReadonlySet<string>
  timeoutMs: number
}

/**
 * The addresses of a host that may be dialled, resolved once: whoever dials takes one of these and never the name. Throws `EgressRefusal`:
 * `unresolvable`, or `private_address` where no address is left.
 */
export async function resolveHost(host: Host, options: ResolveOptions): Promise<readonly IpAddress[]> {
  const addresses = host.address === undefined ? await lookUp(host.name, options) : [host.address]
  if (options.anyAddress) return addresses
  const own = options.ownAddresses()
  const refused = new Set<string>()
  const left = addresses.filter((address) => {
    const why = refusalOf(address, own, options.privateAddresses)
    if (why !== undefined) refused.add(why)
    return why === undefined
  })
  if (left.length > 0) return left
  throw new EgressRefusal('private_address', hostText(host), `its address is not public (${[...refused].join(', ')})`)
}

/** How the host itself resolves names: its hosts file, then DNS. */
export const resolveByHost: Resolve = async (name) => (await lookup(name, { all: true, order: 'verbatim' })).map(({ address }) => address)

/** Every container with a network has an interface here: asking the kernel for 300 takes 3.5 ms, in which nothing else happens. */
const OWN_KEPT_MS = 1000
let own: { addresses: ReadonlySet<string>; at: number } | undefined

/** The addresses of all interfaces of this host, at most a second old; canonical. */
export const addressesOfHost = (): ReadonlySet<string> => {
  const at = performance.now()
  if (own !== undefined && at - own.at < OWN_KEPT_MS) return own.addresses
  const texts = Object.values(networkInterfaces()).flatMap(
    (addresses) => addresses?.map(({ address }) => address.replace(/%.*$/, '')) ?? [],
  )
  own = { addresses: new Set(texts.flatMap((text) => parseAddress(text)?.text ?? [])), at }
  return own.addresses
}

async function lookUp(name: string, { resolve, timeoutMs }: ResolveOptions): Promise<readonly IpAddress[]> {
  const found = await withTimeout(
    resolve(name).catch(() => []),
    timeoutMs,
    () => [],
  )
  const addresses = found.flatMap((text) => parseAddress(text) ?? [])
  if (addresses.length === 0) throw new EgressRefusal('unresolvable', name, 'the name has no address')
  return addresses
}

type Refused = Exclude<AddressClass, 'public'> | 'of the host itself'

function refusalOf(address: IpAddress, own: ReadonlySet<string>, privateAddresses: boolean): Refused | undefined {
  if (own.has(address.text)) return 'of the host itself'
  const found = classifyAddress(address)
  if (found === 'public' || (found === 'private' && privateAddresses)) return undefined
  return found
}
