import { BoxofficeError } from '@boxoffice/protocol'

export type ByteRange = { start: number; length: number }

/** A single byte range of RFC 9110. Undefined: none, several, or another unit, so the whole is sent. Throws RANGE_NOT_SATISFIABLE. */
export const parseRange = (header: string | undefined, size: number): ByteRange | undefined => {
  const match = header === undefined ? null : /^bytes=(\d*)-(\d*)$/.exec(header.trim())
  if (match === null) return undefined
  const [, from = '', to = ''] = match
  if (from === '' && to === '') return undefined
  const start = from === '' ? Math.max(0, size - Number(to)) : Number(from)
  const end = from === '' || to === '' ? size - 1 : Math.min(Number(to), size - 1)
  if (from !== '' && to !== '' && Number(to) < Number(from)) return undefined
  if (start >= size || (from === '' && Number(to) === 0)) {
    throw new BoxofficeError('RANGE_NOT_SATISFIABLE', `Range: the file has ${size} bytes`, { details: { size } })
  }
  return { start, length: end - start + 1 }
}

/** Whether a list of entity tags names this one; weak tags never match strongly. */
export const matchesTag = (header: string, etag: string, compare: 'strong' | 'weak'): boolean =>
  header.split(',').some((one) => {
    const tag = one.trim()
    if (tag === '*') return true
    return compare === 'weak' ? tag.replace(/^W\//, '') === etag : tag === etag
  })
