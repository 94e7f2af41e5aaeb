/** One side of a copy. `thread` is undefined for `:path`, the thread of the command's own flag. */
export type Location = { kind: 'local'; path: string } | SandboxLocation
export type SandboxLocation = { kind: 'sandbox'; thread: string | undefined; path: string }

/**
 * `THREAD:PATH` or `:PATH` is in a sandbox, anything else here. A local name with a colon is written `./a:b`; a thread whose
 * id has a slash goes into `--thread`, with `:PATH`.
 */
export const parseLocation = (text: string): Location => {
  const colon = text.indexOf(':')
  const slash = text.indexOf('/')
  if (colon < 0 || text.startsWith('.') || (slash >= 0 && slash < colon)) return { kind: 'local', path: text }
  return { kind: 'sandbox', thread: text.slice(0, colon) || undefined, path: text.slice(colon + 1) || '.' }
}

/** What `a:b:c` can mean, the shortest thread first: `b:c` of thread `a`, or `c` of thread `a:b`. */
export const readingsOf = (location: SandboxLocation): SandboxLocation[] => {
  const { thread, path } = location
  if (thread === undefined) return [location]
  const [beforeSlash = ''] = path.split('/')
  const colons = [...beforeSlash.matchAll(/:/g)].map(({ index }) => index)
  const longer = colons.map(
    (at): SandboxLocation => ({ kind: 'sandbox', thread: `${thread}:${path.slice(0, at)}`, path: path.slice(at + 1) || '.' }),
  )
  return [location, ...longer]
}
