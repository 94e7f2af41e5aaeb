import type { EgressPlaceholder, EgressPolicy, EgressRule } from './egress.ts'

/** `api.example.com:8443` as its host and its port. The host of an address is its one usual notation. */
type Target = { host: string; port: number | undefined; isAddress: boolean }

/**
 * Why a policy may allow something that `base` does not; undefined where it allows nothing more. Both are without lists. It looks at the
 * text of targets and rules, so it refuses some policies that are narrower in a way that it does not see.
 */
export function wider(policy: EgressPolicy, base: EgressPolicy): string | undefined {
  const kept = policy.rules.filter((rule) => hasRule(base, rule))
  const added = policy.rules.filter((rule) => !hasRule(base, rule))
  const dropped = base.rules.filter((rule) => !hasRule(policy, rule))
  const isDropped = ({ host }: EgressRule): boolean => policy.deny.includes(withoutPort(host))
  const allowed = policy.allow.find((target) => !base.allow.some((one) => covers(one, target)))
  if (allowed !== undefined) return `allow: ${allowed} is not in it`
  const denied = base.deny.find((target) => !policy.deny.includes(target))
  if (denied !== undefined) return `deny: ${denied} is missing`
  const free = dropped.find((rule) => !isDropped(rule))
  if (free !== undefined) return `rules: the rule for ${free.host} is missing; deny its host to do without it`
  for (const { host, inject } of added) {
    if (!base.allow.some((target) => covers(target, host))) return `rules: ${host} is not in its allow`
    if (inject.length > 0) return `rules: the rule for ${host} sets a header`
    if ([...kept, ...dropped].some((rule) => meets(rule.host, host))) return `rules: ${host} has rules already`
  }
  const placeholder = policy.placeholders.find((one) => !hasPlaceholder(base, one))
  if (placeholder !== undefined) return `placeholders: the one for ${placeholder.env} is not in it`
  if (policy.private_addresses && !base.private_addresses) return 'private_addresses: it has none'
  const isOpened = policy.tls.terminate === base.tls.terminate || (base.tls.terminate === 'rules' && policy.tls.terminate === 'all')
  if (!isOpened) return `tls.terminate: it is ${base.tls.terminate}`
  if (!isSame(policy.tls.bypass.toSorted(), base.tls.bypass.toSorted())) return 'tls.bypass: it is another one'
  return undefined
}

/** Whether a policy has exactly this rule. */
export const hasRule = ({ rules }: EgressPolicy, rule: EgressRule): boolean => rules.some((one) => isSame(one, rule))

/** Whether a policy has exactly this placeholder. */
export const hasPlaceholder = ({ placeholders }: EgressPolicy, placeholder: EgressPlaceholder): boolean =>
  placeholders.some((one) => isSame(one, placeholder))

function covers(wideText: string, text: string): boolean {
  const wide = targetOf(wideText)
  const target = targetOf(text)
  if (!coversHost(wide, target)) return false
  if (wide.port === target.port) return wide.host === '*' || target.host !== '*' || wide.port !== undefined
  // Another port than 443 that is named takes bytes that are not TLS as well, which `*` does not.
  return wide.port === undefined ? target.port === 443 : wide.port === 443 && target.port === undefined && target.host !== '*'
}

function coversHost(wide: Target, target: Target): boolean {
  if (wide.host === target.host) return true
  if (wide.isAddress || target.isAddress) return false
  if (wide.host === '*') return true
  return wide.host.startsWith('*.') && target.host.endsWith(wide.host.slice(1)) && target.host.length > wide.host.length - 1
}

/** Whether some host is described by both. Of addresses, two notations of IPv6 may be one. */
function meets(one: string, other: string): boolean {
  const [a, b] = [targetOf(one), targetOf(other)]
  if (a.isAddress && b.isAddress) return a.host === b.host || a.host.startsWith('[') || b.host.startsWith('[')
  return coversHost(a, b) || coversHost(b, a)
}

const withoutPort = (text: string): string => text.replace(/:\d+$/, '')

function targetOf(text: string): Target {
  const [, written = text, digits] = /^(.*?)(?::(\d+))?$/.exec(text) ?? []
  const port = digits === undefined ? undefined : Number(digits)
  if (written.startsWith('*')) return { host: written, port, isAddress: false }
  const host = URL.canParse(`http://${written}`) ? new URL(`http://${written}`).hostname : written
  return { host, port, isAddress: host.startsWith('[') || /^[\d.]+$/.test(host) }
}

/** Of values that have come through one schema, so that their fields are in one order. */
const isSame = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b)
