import { BoxofficeError } from '@boxoffice/protocol'
import { type Host, hostText, parseHost } from '../address/parse-host.ts'

/** One target of a policy. */
export type Target = {
  /** As the policy has it. */
  text: string
  /** Undefined where the policy names none. */
  port: number | undefined
  /** `*` alone. */
  isAny: boolean
  coversHost: (host: Host) => boolean
}

/** Throws INVALID_REQUEST for what is no host; the broker has put the hosts of lists in their places. */
export const compileTargets = (texts: readonly string[]): readonly Target[] => texts.map(compileTarget)

/** Ports that a grant opens: 443 where it names none; 80 as well for `*`. */
export const grantedPorts = ({ port, isAny }: Target): readonly number[] => (port !== undefined ? [port] : isAny ? [80, 443] : [443])

export const grants = (target: Target, host: Host, port: number): boolean => grantedPorts(target).includes(port) && target.coversHost(host)

/** In `deny` and `tls.bypass` a target without port stands for every port. */
export const names = (target: Target, host: Host, port: number): boolean =>
  (target.port === undefined || target.port === port) && target.coversHost(host)

function compileTarget(text: string): Target {
  const [, pattern = text, digits] = /^(.*?)(?::(\d{1,5}))?$/.exec(isBareIpv6(text) ? `[${text}]` : text) ?? []
  const port = digits === undefined ? undefined : Number(digits)
  const coversHost = matcherOf(pattern)
  if (coversHost === undefined || port === 0 || (port ?? 0) > 65_535)
    throw new BoxofficeError('INVALID_REQUEST', `egress: ${text} is not a host, *.host, * or address, with :port or without`)
  return { text, port, isAny: pattern === '*', coversHost }
}

const isBareIpv6 = (text: string): boolean => !text.startsWith('[') && text.split(':').length > 2

function matcherOf(pattern: string): Target['coversHost'] | undefined {
  // Names only: an address that nobody named has no name that `deny` could match, nor one that TLS could show.
  if (pattern === '*') return (host) => host.name !== undefined
  const wanted = parseHost(pattern.replace(/^\*\./, ''))
  if (wanted === undefined) return undefined
  const text = hostText(wanted)
  if (!pattern.startsWith('*.')) return (host) => hostText(host) === text
  if (wanted.name === undefined) return undefined
  return (host) => host.name?.endsWith(`.${text}`) === true
}
