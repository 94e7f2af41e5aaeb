import { createHash } from 'node:crypto'

/** What stands in the environment of a sandbox for a secret, with the value that the secret has now; undefined where there is none. */
export type ResolvedPlaceholder = { readonly sentinel: string; readonly value: string | undefined }

/**
 * What the variable `env` of a sandbox has: 40 letters and digits, so that no program encodes or quotes them. The same for the whole life of
 * the sandbox, whatever its agent remembers: programs that run go on with it.
 */
export const sentinelOf = (sandboxId: string, env: string): string =>
  createHash('sha256').update(`boxoffice placeholder\n${sandboxId}\n${env}`).digest('hex').slice(0, 40)

/** What a header may carry as it is. */
const HEADER_SAFE = /^[\t\x20-\x7e]*$/
const BASIC = /^(basic +)([A-Za-z0-9+/]+={0,2})( *)$/i

/**
 * Replaces in the value of a header each sentinel by its secret, also in the credentials of `Basic`. A sentinel stays where its secret is
 * not there, or no header can carry it. Made once for a request: it has many headers.
 */
export function swapPlaceholders(placeholders: readonly ResolvedPlaceholder[]): (text: string) => string {
  const values = new Map<string, string>()
  for (const { sentinel, value } of placeholders) if (value !== undefined) values.set(sentinel, value)
  if (values.size === 0) return (text) => text
  // One pass: what is a sentinel within a value is left as it is.
  const sentinels = new RegExp([...values.keys()].join('|'), 'g')
  const swap = (within: string, shown: (value: string) => string | undefined): string =>
    within.replace(sentinels, (sentinel) => shown(values.get(sentinel) ?? sentinel) ?? sentinel)
  return (text) => {
    const [, scheme = '', encoded, end = ''] = BASIC.exec(text) ?? []
    if (encoded === undefined) return swap(text, (value) => (HEADER_SAFE.test(value) ? value : undefined))
    // Bytes as characters: whatever else the credentials are stays as it is.
    const credentials = Buffer.from(encoded, 'base64').toString('latin1')
    const swapped = swap(credentials, (value) => Buffer.from(value).toString('latin1'))
    return swapped === credentials ? text : `${scheme}${Buffer.from(swapped, 'latin1').toString('base64')}${end}`
  }
}
