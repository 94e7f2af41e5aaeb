import { type BoxErrorStore, MAX_BOX_ERRORS } from '../../box-error-store.ts'
import { type BoxErrorRow, toBoxError } from '../../rows/box-error-row.ts'
import type { Database } from '../engine/database.ts'
import { holdableText } from '../engine/holdable-text.ts'
import { lockNamed } from '../engine/locks.ts'

export function postgresBoxErrors({ read, write }: Database): BoxErrorStore {
  return {
    add: (tenant, { at, type, message, queryId }, most) =>
      write(async (tx) => {
        // Those of one tenant take turns, so that of more than `most` the oldest go.
        await lockNamed(tx, `box errors of ${tenant}`)
        const values = [tenant, at, type, holdableText(message), queryId && holdableText(queryId)]
        const [row] = await tx.rows<{ id: number }>(INSERT, values)
        await tx.run(TRIM, [tenant, most])
        await tx.run('DELETE FROM box_errors WHERE id <= $1', [(row?.id ?? 0) - MAX_BOX_ERRORS])
      }),
    of: async (tenant) => (await read.rows<BoxErrorRow>(OF, [tenant])).map(toBoxError),
  }
}

const INSERT = 'INSERT INTO box_errors (tenant, at, type, message, query_id) VALUES ($1, $2, $3, $4, $5) RETURNING id'
const TRIM = 'DELETE FROM box_errors WHERE id IN (SELECT id FROM box_errors WHERE tenant = $1 ORDER BY id DESC OFFSET $2)'
const OF = 'SELECT at, type, message, query_id FROM box_errors WHERE tenant = $1 ORDER BY id'
