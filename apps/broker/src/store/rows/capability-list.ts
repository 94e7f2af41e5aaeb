import type { Capability } from '@boxoffice/protocol'

/** Capabilities as a column has them: separated by spaces; null stays null. */
export function toText(capabilities: readonly Capability[]): string
export function toText(capabilities: readonly Capability[] | null): string | null
export function toText(capabilities: readonly Capability[] | null): string | null {
  return capabilities?.join(' ') ?? null
}

export function toCapabilities(text: string): Capability[]
export function toCapabilities(text: string | null): Capability[] | null
export function toCapabilities(text: string | null): Capability[] | null {
  return text === null ? null : (text.split(' ').filter(Boolean) as Capability[])
}
