import type { Sealed } from './sealing.ts'
import type { SecretKeys } from './secret-keys.ts'

/**
 * `kekId`: the first key of the file. `changed`: rows that another program has changed meanwhile. `unreadable`: what rows are called that
 * no key of the file opens, and the keys that they are sealed under; they are left as they are.
 */
export type Rekeyed = { kekId: string; resealed: number; already: number; changed: number; unreadable: { kid: string; kekId: string }[] }

export type ResealOptions<Row, Opened> = {
  nameOf: (row: Row) => string
  /** Throws where the row does not open. */
  open: (row: Row) => Opened
  /** Seals it under the first key, and replaces the row unless another program has changed it; false then. */
  replace: (row: Row, opened: Opened) => Promise<boolean>
}

/** Seals rows under the first key of the secret key file. Repeatable, beside running brokers. */
export async function reseal<Row extends Sealed, Opened>(
  rows: Iterable<Row> | AsyncIterable<Row>,
  keys: SecretKeys,
  { nameOf, open, replace }: ResealOptions<Row, Opened>,
): Promise<Rekeyed> {
  const done: Rekeyed = { kekId: keys.first.id, resealed: 0, already: 0, changed: 0, unreadable: [] }
  for await (const row of rows) {
    let opened: Opened
    try {
      opened = open(row)
    } catch {
      done.unreadable.push({ kid: nameOf(row), kekId: row.kekId })
      continue
    }
    if (row.kekId === done.kekId) done.already++
    else if (await replace(row, opened)) done.resealed++
    else done.changed++
  }
  return done
}

/** What was done to several tables. */
export const bothRekeyed = (one: Rekeyed, other: Rekeyed): Rekeyed => ({
  kekId: one.kekId,
  resealed: one.resealed + other.resealed,
  already: one.already + other.already,
  changed: one.changed + other.changed,
  unreadable: [...one.unreadable, ...other.unreadable],
})
