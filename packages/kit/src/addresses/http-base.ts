import { withoutSlash } from './without-slash.ts'

/** What precedes the paths of an http(s) server: its URL without query, fragment and slash at the end. Undefined where it is none. */
export function httpBase(url: string): string | undefined {
  const parsed = URL.parse(url)
  if (parsed === null || (parsed.protocol !== 'http:' && parsed.protocol !== 'https:')) return undefined
  return withoutSlash(parsed.href.replace(/[?#].*$/, ''))
}
