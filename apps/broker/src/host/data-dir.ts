import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { writeRefusal } from './disk-error.ts'
import { StartError } from './start-error.ts'

/** Makes the data directory (mode 0700) when it is missing. */
export function openDataDir(directory: string): void {
  try {
    mkdirSync(directory, { recursive: true, mode: 0o700 })
  } catch (thrown) {
    throw new StartError(`the data directory ${directory} cannot be made: ${(thrown as Error).message}; choose another with --data-dir`)
  }
}

export const DATABASE_FILE = 'broker.db'

/** The data directory of a broker that has run, by itself or the directory above it. Throws `StartError` where there is none. */
export function brokerDirectory(from: string): string {
  const directory = [join(from, 'broker'), from].find((path) => existsSync(join(path, DATABASE_FILE)))
  if (directory === undefined) throw new StartError(`${from} has no broker's database (${DATABASE_FILE})`)
  return directory
}

/** A secret kept in a file of mode 0600; undefined when there is none. */
export function readSecret(directory: string, name: string): string | undefined {
  const path = join(directory, name)
  if (!existsSync(path)) return undefined
  try {
    return readFileSync(path, 'utf8').trim() || undefined
  } catch (thrown) {
    throw new StartError(`${path} cannot be read: ${(thrown as Error).message}`)
  }
}

/** 503 `disk_full` where there is no space for it. */
export function writeSecret(directory: string, name: string, secret: string): void {
  try {
    writeFileSync(join(directory, name), `${secret}\n`, { mode: 0o600 })
  } catch (thrown) {
    throw writeRefusal(thrown)
  }
}

/** The enroll token of this data directory, made at the first start. Two brokers that start at once agree on one. */
export function enrollTokenOf(directory: string): string {
  const known = readSecret(directory, 'enroll-token')
  if (known !== undefined) return known
  try {
    writeFileSync(join(directory, 'enroll-token'), `bxe_${randomBytes(32).toString('base64url')}\n`, { mode: 0o600, flag: 'wx' })
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code !== 'EEXIST') throw thrown
  }
  const made = readSecret(directory, 'enroll-token')
  if (made === undefined) throw new StartError(`${join(directory, 'enroll-token')} is empty; remove it`)
  return made
}
