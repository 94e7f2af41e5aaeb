import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { StartError } from './start-error.ts'

/**
 * One broker per data directory, unless all of them are told to share it. The lock is a lock on a small database file that
 * the kernel drops when the process ends, however it ends; no stale file to clean up, no pid that somebody else has by now.
 */
export function lockDataDir(directory: string, shared: boolean): Disposable {
  const pidFile = join(directory, 'broker.pid')
  const db = new Database(join(directory, 'broker.lock'), { timeout: 250 })
  try {
    // A rollback journal: in WAL mode readers would not keep an exclusive lock out.
    db.pragma('journal_mode = DELETE')
    if (shared) {
      db.exec('BEGIN')
      db.prepare('SELECT count(*) FROM sqlite_schema').get()
    } else {
      db.exec('BEGIN EXCLUSIVE')
    }
  } catch (thrown) {
    db.close()
    throw new StartError(
      `the data directory ${directory} is in use by another broker (pid ${readPid(pidFile)}); stop it, use another --data-dir, or start both with --shared-data-dir`,
      { cause: thrown },
    )
  }
  writeFileSync(pidFile, `${process.pid}\n`, { mode: 0o600 })
  return { [Symbol.dispose]: () => void db.close() }
}

const readPid = (path: string): string => {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    return 'unknown'
  }
}
