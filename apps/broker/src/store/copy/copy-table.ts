import type { Client } from 'pg'
import { holdableText } from '../postgres/engine/holdable-text.ts'
import type { Db } from '../sqlite/engine/database.ts'

type Row = Record<string, string | number | null>

/** Characters of JSON that one statement takes. */
const BATCH_LENGTH = 1024 * 1024

/** Copies all rows by the names of their columns, in the client's transaction. Gives how many there are. */
export async function copyTable(db: Db, client: Client, table: string): Promise<number> {
  const columns = (db.pragma(`table_info(${table})`) as { name: string }[]).map(({ name }) => name)
  const isSessions = table === 'sessions'
  const select = isSessions ? `SELECT *, ${LAST_EVENT} AS event_seq FROM sessions` : `SELECT * FROM ${table}`
  const names = (isSessions ? [...columns, 'event_seq'] : columns).map((name) => client.escapeIdentifier(name)).join()
  const insert = `INSERT INTO ${table} (${names}) SELECT ${names} FROM json_populate_recordset(NULL::${table}, $1::json)`
  let batch: string[] = []
  let length = 0
  let rows = 0
  const write = async (): Promise<void> => {
    if (batch.length > 0) rows += (await client.query(insert, [`[${batch.join()}]`])).rowCount ?? 0
    batch = []
    length = 0
  }
  for (const row of db.prepare<[], Row>(select).iterate()) {
    const json = JSON.stringify(holdableRow(row, isSessions))
    batch.push(json)
    length += json.length
    if (length >= BATCH_LENGTH) await write()
  }
  await write()
  return rows
}

/** Events are trimmed from the first one on, so that the last id is always there. */
const LAST_EVENT = 'coalesce((SELECT max(e.id) FROM session_events e WHERE e.session_id = sessions.id), 0)'

/** Labels are looked into by queries, so that what they say in escapes has to be holdable as well. */
function holdableRow(row: Row, hasLabels: boolean): Row {
  const entries = Object.entries(row).map(([name, value]) => [name, typeof value === 'string' ? holdableText(value) : value] as const)
  const holdable: Row = Object.fromEntries(entries)
  if (hasLabels && String(holdable.labels).includes('\\u')) holdable.labels = holdableLabels(String(holdable.labels))
  return holdable
}

function holdableLabels(json: string): string {
  const labels = Object.entries(JSON.parse(json) as Record<string, string>)
  return JSON.stringify(Object.fromEntries(labels.map(([key, value]) => [holdableText(key), holdableText(value)])))
}
