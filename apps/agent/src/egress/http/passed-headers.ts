import type { IncomingMessage } from 'node:http'

type Header = readonly [name: string, value: string]

/** Of one connection only. */
const HOP_BY_HOP: ReadonlySet<string> = new Set(['connection', 'keep-alive', 'te', 'trailer', 'transfer-encoding', 'upgrade'])
/** Where a request ends and whose it is. A client that names them in `Connection` would have its body taken for the next request. */
const KEPT: ReadonlySet<string> = new Set(['content-length', 'host'])
const OF_UPGRADES: ReadonlySet<string> = new Set(['connection', 'upgrade'])

/** Headers as they came, names and duplicates included. */
export const headersOf = ({ rawHeaders }: IncomingMessage): Header[] =>
  Array.from({ length: rawHeaders.length / 2 }, (_, at) => [rawHeaders[at * 2] ?? '', rawHeaders[at * 2 + 1] ?? ''])

/** Those that the other side gets: without what is of this connection, which `Connection` names too, and of proxies. */
export const passedHeaders = (message: IncomingMessage, { isUpgrade }: { isUpgrade: boolean }): Header[] => {
  const named = new Set((message.headers.connection ?? '').toLowerCase().split(/[\s,]+/))
  return headersOf(message).filter(([name]) => {
    const lower = name.toLowerCase()
    if (isUpgrade && OF_UPGRADES.has(lower)) return true
    return KEPT.has(lower) || !(HOP_BY_HOP.has(lower) || lower.startsWith('proxy-') || named.has(lower))
  })
}
