/**
 * A request's path in the one form in which it is matched and forwarded: dot segments are resolved, the query stays as it is. Undefined
 * for what two readers could take for two paths: encoded slashes, dots and backslashes, control characters.
 */
export const normalPath = (text: string): string | undefined => {
  const [path = '', ...query] = text.split('?')
  if (!path.startsWith('/') || path.startsWith('//') || AMBIGUOUS.test(path) || query.some((part) => CONTROLS.test(part))) return undefined
  const parts: string[] = []
  const segments = path.slice(1).split('/')
  for (const [at, segment] of segments.entries()) {
    const isDots = segment === '.' || segment === '..'
    if (segment === '..') parts.pop()
    if (!isDots) parts.push(segment)
    else if (at === segments.length - 1) parts.push('')
  }
  return `/${parts.join('/')}${query.length === 0 ? '' : `?${query.join('?')}`}`
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: those are what is looked for.
const CONTROLS = /[\u0000-\u0020\u007f-\uffff#]/
const AMBIGUOUS = new RegExp(`${CONTROLS.source}|\\\\|%(?:2f|2e|5c|00)|%(?![0-9a-f]{2})`, 'i')
