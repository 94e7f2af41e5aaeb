import { randomInt } from 'node:crypto'

/** What stands in the environment of a sandbox for a secret, and where the secret takes its place. */
export type Placeholder = {
  /** Letters and digits, so that no program encodes or quotes them. */
  readonly sentinel: string
  /** The name of the secret. */
  readonly secret: string
  /** Lower case: `api.example.com`, or `*.example.com` for every name below it. */
  readonly hosts: readonly string[]
}

/** A placeholder with the value that its secret has now; undefined where the session has none. */
export type ResolvedPlaceholder = Pick<Placeholder, 'sentinel' | 'hosts'> & { readonly value: string | undefined }

/** Fewer characters may stand in a header by chance. */
const LEAST_CHARS = 16
const MOST_CHARS = 4096
const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'

/** A new placeholder, as long as the value within 16 to 4,096 characters: some programs look at the length of a token. */
export function makePlaceholder(secret: string, hosts: readonly string[], valueLength: number): Placeholder {
  const length = Math.min(Math.max(valueLength, LEAST_CHARS), MOST_CHARS)
  const sentinel = Array.from({ length }, () => ALPHABET[randomInt(ALPHABET.length)]).join('')
  return { sentinel, secret, hosts: hosts.map((host) => host.toLowerCase()) }
}

/** What a header may carry as it is. */
const HEADER_SAFE = /^[\t\x20-\x7e]*$/
const BASIC = /^(basic +)([A-Za-z0-9+/]+={0,2})( *)$/i

/**
 * The headers (name and value by turns, as `rawHeaders`) with each sentinel of a placeholder for `host` replaced by its value, also in the
 * credentials of `Basic`. A sentinel stays where its placeholder is for other hosts, its secret is not there, or no header can carry it.
 */
export function swapPlaceholders(headers: readonly string[], placeholders: readonly ResolvedPlaceholder[], host: string): string[] {
  const values = new Map<string, string>()
  for (const { sentinel, hosts, value } of placeholders) if (value !== undefined && isFor(hosts, host)) values.set(sentinel, value)
  if (values.size === 0) return [...headers]
  const swap = (text: string, shown: (value: string) => string | undefined): string => {
    // One pass: what is a sentinel within a value is left as it is.
    const parts = new RegExp([...values.keys()].join('|'), 'g')
    return text.replace(parts, (sentinel) => shown(values.get(sentinel) ?? sentinel) ?? sentinel)
  }
  return headers.map((text, at) => {
    if (at % 2 === 0) return text
    const [, scheme = '', encoded, end = ''] = BASIC.exec(text) ?? []
    if (encoded === undefined) return swap(text, (value) => (HEADER_SAFE.test(value) ? value : undefined))
    // Bytes as characters: whatever else the credentials are stays as it is.
    const credentials = Buffer.from(encoded, 'base64').toString('latin1')
    const swapped = swap(credentials, (value) => Buffer.from(value).toString('latin1'))
    return swapped === credentials ? text : `${scheme}${Buffer.from(swapped, 'latin1').toString('base64')}${end}`
  })
}

/** `host`: without a port, in any case; one dot at its end does not count. */
function isFor(hosts: readonly string[], host: string): boolean {
  const name = host.toLowerCase().replace(/\.$/, '')
  return hosts.some((pattern) =>
    pattern.startsWith('*.') ? name.endsWith(pattern.slice(1)) && name.length >= pattern.length : name === pattern,
  )
}
