import { BoxofficeError, CAPABILITIES, CAPABILITY_ALIASES, Capability, ONLY_BY_NAME } from '@boxoffice/protocol'

export type Capabilities = readonly Capability[]

/** What a request asks for; null: everything that policy allows, but for `ONLY_BY_NAME`. `unknown` are names that mean nothing here [C-56]. */
export type RequestedCapabilities = { capabilities: Capabilities | null; unknown: readonly string[] }

/** Reads names and their aliases; absent is everything, `[]` nothing. */
export function readRequested(names: readonly string[] | undefined): RequestedCapabilities {
  if (names === undefined) return EVERYTHING
  const read = names.map((name) => ({ name, capability: Capability.safeParse(CAPABILITY_ALIASES[name] ?? name).data }))
  const known = new Set(read.map(({ capability }) => capability))
  return {
    capabilities: CAPABILITIES.filter((capability) => known.has(capability)),
    unknown: [...new Set(read.flatMap(({ name, capability }) => (capability === undefined ? [name] : [])))],
  }
}
const EVERYTHING: RequestedCapabilities = { capabilities: null, unknown: [] }

/** What who names none gets of them. */
export const withoutNamed = (all: Capabilities): Capabilities => all.filter((one) => !ONLY_BY_NAME.has(one))

/** What is in both. Gives `a` itself where nothing is missing, which is nearly always. */
export const intersect = (a: Capabilities, b: Capabilities): Capabilities => (isWithin(a, b) ? a : a.filter((one) => b.includes(one)))
export const unite = (a: Capabilities, b: Capabilities): Capabilities =>
  isWithin(b, a) ? a : CAPABILITIES.filter((one) => a.includes(one) || b.includes(one))
export const isWithin = (a: Capabilities, b: Capabilities): boolean => a === b || a.every((one) => b.includes(one))

/** A grant that covers another request too; null is everything, undefined no request. */
export const widest = (granted: Capabilities | null, asks: Capabilities | null | undefined): Capabilities | null => {
  if (asks === undefined) return granted
  return granted === null || asks === null ? null : unite(granted, asks)
}

/** 403 when a request asks for something and gets nothing of it, also for names that mean nothing here; a part of it is granted [4-75]. */
export function requireSome({ capabilities, unknown }: RequestedCapabilities, allowed: Capabilities): void {
  if (capabilities === null || capabilities.some((one) => allowed.includes(one))) return
  const refused = [...capabilities, ...unknown]
  if (refused.length === 0) return
  throw new BoxofficeError(
    'CAPABILITY_DENIED',
    `requested_capabilities: ${refused.join(', ')} not granted; policy allows ${allowed.join(', ') || 'none'}`,
    { details: { field: 'requested_capabilities', refused, allowed } },
  )
}
