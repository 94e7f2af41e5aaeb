/** Of one connection only (RFC 9110, 7.6.1); `Expect` is answered by each server itself. */
const HOP_BY_HOP: ReadonlySet<string> = new Set([
  ...['connection', 'keep-alive', 'proxy-connection', 'proxy-authenticate', 'proxy-authorization'],
  ...['te', 'trailer', 'transfer-encoding', 'upgrade', 'expect', 'http2-settings'],
])

/**
 * The headers that go on to the next hop: those of the connection are left out, and what it names. Its length and its host stay whatever is
 * named: without them the body would be the next message, or the message somebody else's.
 */
export function* endToEndHeaders(
  raw: readonly string[],
  connection: string | undefined,
): Generator<[name: string, value: string, lower: string]> {
  const named = new Set((connection ?? '').split(',').map((name) => name.trim().toLowerCase()))
  named.delete('content-length')
  named.delete('host')
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const [name, value] = [raw[i] as string, raw[i + 1] as string]
    const lower = name.toLowerCase()
    if (!HOP_BY_HOP.has(lower) && !named.has(lower)) yield [name, value, lower]
  }
}

/** How the body of a passed request is framed, or that it asks for a WebSocket; by its length where it has one. */
export const framingOf = (headers: { 'transfer-encoding'?: string | undefined }, isUpgrade: boolean): string[] => {
  if (isUpgrade) return ['Connection', 'Upgrade', 'Upgrade', 'websocket']
  return headers['transfer-encoding'] === undefined ? [] : ['Transfer-Encoding', 'chunked']
}
