/** One side of a copy. `thread` is undefined for `:path`, the thread of the command's own flag. */
export type Location = { kind: 'local'; path: string } | { kind: 'sandbox'; thread: string | undefined; path: string }

/**
 * `THREAD:PATH` or `:PATH` is in a sandbox, anything else here. A local name with a colon is written `./a:b`; a thread whose
 * id has a colon or a slash goes into `--thread`, with `:PATH`.
 */
export const parseLocation = (text: string): Location => {
  const colon = text.indexOf(':')
  const slash = text.indexOf('/')
  if (colon < 0 || text.startsWith('.') || (slash >= 0 && slash < colon)) return { kind: 'local', path: text }
  return { kind: 'sandbox', thread: text.slice(0, colon) || undefined, path: text.slice(colon + 1) || '.' }
}
