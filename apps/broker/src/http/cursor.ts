import { BoxofficeError } from '@boxoffice/protocol'

/** Opaque page positions. They hold no secret; a cursor that is not ours is 400. */
export const encodeCursor = (position: readonly (string | number)[]): string => Buffer.from(JSON.stringify(position)).toString('base64url')

/** The first `limit` of rows that were asked for with one more, and where the next page begins; null: nowhere. */
export function pageOf<Row>(rows: readonly Row[], limit: number, position: (row: Row) => readonly (string | number)[]) {
  const page = rows.slice(0, limit)
  const last = rows.length > limit ? page.at(-1) : undefined
  return { page, next_cursor: last === undefined ? null : encodeCursor(position(last)) }
}

export function decodeCursor(cursor: string, shape: readonly ('string' | 'number')[]): (string | number)[] {
  try {
    const position: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString())
    if (Array.isArray(position) && position.length === shape.length && shape.every((type, i) => typeof position[i] === type))
      return position
  } catch {
    // falls through to the refusal
  }
  throw new BoxofficeError('INVALID_REQUEST', 'cursor: is not one of next_cursor; start again without it')
}
