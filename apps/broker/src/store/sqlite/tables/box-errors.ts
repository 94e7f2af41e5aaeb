import { type BoxErrorStore, MAX_BOX_ERRORS } from '../../box-error-store.ts'
import { type BoxErrorRow, toBoxError } from '../../rows/box-error-row.ts'
import type { Db } from '../engine/database.ts'
import type { Write } from '../engine/writer.ts'

export function sqliteBoxErrors(db: Db, write: Write): BoxErrorStore {
  const insert = db.prepare('INSERT INTO box_errors (tenant, at, type, message, query_id) VALUES (?, ?, ?, ?, ?)')
  const trim = db.prepare(
    'DELETE FROM box_errors WHERE id IN (SELECT id FROM box_errors WHERE tenant = ? ORDER BY id DESC LIMIT -1 OFFSET ?)',
  )
  const trimAll = db.prepare('DELETE FROM box_errors WHERE id <= ?')
  const of = db.prepare<[string], BoxErrorRow>('SELECT at, type, message, query_id FROM box_errors WHERE tenant = ? ORDER BY id')
  return {
    add: (tenant, { at, type, message, queryId }, most) =>
      write(() => {
        const { lastInsertRowid: id } = insert.run(tenant, at, type, message, queryId)
        trim.run(tenant, most)
        trimAll.run(Number(id) - MAX_BOX_ERRORS)
      }),
    of: async (tenant) => of.all(tenant).map(toBoxError),
  }
}
