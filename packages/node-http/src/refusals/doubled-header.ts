import type { IncomingMessage } from 'node:http'
import { BoxofficeError } from '@boxoffice/protocol'

/** What says where a request goes and who asks: Node takes the first of two, others the last. */
const SINGLE: ReadonlySet<string> = new Set(['host', 'authorization', 'x-api-key'])
const LENGTHS: ReadonlySet<number> = new Set([...SINGLE].map(({ length }) => length))

/** Throws INVALID_REQUEST where one of these headers is there twice [contract 2.1]. */
export function requireSingleHeaders({ rawHeaders }: Pick<IncomingMessage, 'rawHeaders'>): void {
  let seen: string[] | undefined
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const raw = rawHeaders[at] as string
    if (!LENGTHS.has(raw.length)) continue
    const name = raw.toLowerCase()
    if (!SINGLE.has(name)) continue
    if (seen?.includes(name)) throw new BoxofficeError('INVALID_REQUEST', `${raw}: the header is there twice; send it once`)
    seen = [...(seen ?? []), name]
  }
}
