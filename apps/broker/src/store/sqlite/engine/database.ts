import { closeSync, existsSync, openSync, statSync } from 'node:fs'
import { retry } from '@boxoffice/kit/retry'
import Database from 'better-sqlite3'
import { StartError } from '../../../host/start-error.ts'
import { MIGRATIONS } from './migrations.ts'

export type Db = Database.Database

/** Above this size a full check would delay every start; damage there shows at the first access instead. */
const CHECKED_BYTES = 64 * 1024 * 1024

/** How long brokers that start at once on a new file wait for each other. */
const START_LOCK_MS = 10_000

/** Opens (or makes) the database. A file that is damaged, foreign or newer is refused by its path and left as it is. */
export function openDatabase(path: string): Promise<Db> {
  const until = performance.now() + START_LOCK_MS
  return retry(() => open(path), {
    waitMs: (thrown) => {
      // SQLite's own busy timeout does not cover the change to WAL mode.
      if (!isBusy(thrown)) return undefined
      if (performance.now() < until) return 20
      throw new StartError(`the database ${path} is locked by another program; end it and start again`, { cause: thrown })
    },
  })
}

function open(path: string): Db {
  if (existsSync(path) && statSync(path).size > 0) inspect(path)
  closeSync(openSync(path, 'a', 0o600)) // SQLite would take the umask's mode; its WAL takes this one's
  const db = new Database(path, { timeout: 5000 })
  try {
    db.pragma('journal_mode = WAL')
    // In WAL mode NORMAL keeps every commit through a crash of the process [C-72]; only a power cut can lose the last ones.
    db.pragma('synchronous = NORMAL')
    db.pragma('foreign_keys = ON')
    db.pragma('cache_size = -65536')
    db.pragma('wal_autocheckpoint = 4000')
    // A large sort or savepoint must not need a disk that is full.
    db.pragma('temp_store = MEMORY')
    migrate(db)
    return db
  } catch (thrown) {
    db.close()
    throw thrown
  }
}

/** Read-only, so that not even a checkpoint touches a file that is then refused. */
function inspect(path: string): void {
  let version: number
  try {
    const db = new Database(path, { readonly: true, timeout: 5000 })
    try {
      version = db.pragma('user_version', { simple: true }) as number
      const found = statSync(path).size <= CHECKED_BYTES ? db.pragma('quick_check(1)', { simple: true }) : 'ok'
      if (found !== 'ok') throw damaged(path)
      const tables = db.prepare("SELECT count(*) FROM sqlite_schema WHERE name IN ('sessions', 'audit')").pluck().get()
      if (version > 0 && version <= MIGRATIONS.length && tables !== 2) throw damaged(path)
    } finally {
      db.close()
    }
  } catch (thrown) {
    if (thrown instanceof StartError || isBusy(thrown)) throw thrown
    if (isDamage(thrown)) throw damaged(path, thrown)
    throw new StartError(
      `the database ${path} cannot be opened: ${(thrown as Error).message}; check that it is readable and its directory writable`,
    )
  }
  if (version > MIGRATIONS.length)
    throw new StartError(
      `the database ${path} was written by a newer Boxoffice (schema ${version}, this one knows ${MIGRATIONS.length}); start that version, or use another --data-dir. It was not changed`,
    )
}

const isDamage = (thrown: unknown): boolean =>
  thrown instanceof Database.SqliteError && (thrown.code.startsWith('SQLITE_CORRUPT') || thrown.code.startsWith('SQLITE_NOTADB'))

const damaged = (path: string, cause?: unknown): StartError =>
  new StartError(
    `the database ${path} is damaged or is not a Boxoffice database; restore it from a backup, or move it away to start empty. It was not changed`,
    { cause },
  )

function migrate(db: Db): void {
  const version = (): number => db.pragma('user_version', { simple: true }) as number
  if (version() === MIGRATIONS.length) return
  db.transaction(() => {
    // Read again inside: another broker may have migrated while this one waited for the lock.
    for (let next = version(); next < MIGRATIONS.length; next++) {
      db.exec(MIGRATIONS[next] ?? '')
      db.pragma(`user_version = ${next + 1}`)
    }
  }).immediate()
}

export const isBusy = (thrown: unknown): boolean => thrown instanceof Database.SqliteError && thrown.code.startsWith('SQLITE_BUSY')

export const isUniqueViolation = (thrown: unknown): boolean =>
  thrown instanceof Database.SqliteError && thrown.code === 'SQLITE_CONSTRAINT_UNIQUE'
