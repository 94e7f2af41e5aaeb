import { randomBytes, randomUUID } from 'node:crypto'
import { existsSync, linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { BoxofficeError } from '@boxoffice/protocol'
import { writeRefusal } from './disk-error.ts'
import { KEY_BYTES, SecretKeys } from './secret-keys.ts'
import { StartError } from './start-error.ts'

/** What a broker without a configured secret key file calls its own, in its data directory. */
export const OWN_FILE = 'secret-keys'

/**
 * Makes a secret key file (mode 0600) with a new key; with `add` the key becomes the first one of the file that is there. Gives the key's
 * id. The file is whole at any time. Throws `StartError`.
 */
export function makeSecretKey(path: string, { add = false } = {}): string {
  if (add) new SecretKeys(path)
  else if (existsSync(path)) throw new StartError(`${path} is there; choose another file, or add a key to it with --add`)
  const temporary = `${path}.${randomUUID()}.tmp`
  try {
    const others = add ? readFileSync(path, 'utf8') : ''
    writeFileSync(temporary, `${randomBytes(KEY_BYTES).toString('base64url')}\n${others}`, { mode: 0o600, flag: 'wx', flush: true })
    // A link never replaces a file that another program has made meanwhile.
    if (add) renameSync(temporary, path)
    else linkSync(temporary, path)
  } catch (thrown) {
    const code = (thrown as NodeJS.ErrnoException).code ?? 'unknown error'
    throw new StartError(`${path} cannot be written: ${code}`, { cause: thrown })
  } finally {
    rmSync(temporary, { force: true })
  }
  return new SecretKeys(path).first.id
}

/**
 * The secret key file of a data directory; it is made where there is none. Two brokers that make it at once agree on one. 503 `disk_full`
 * where there is no space for it.
 */
export function ownSecretKeyFile(directory: string): string {
  const path = join(directory, OWN_FILE)
  try {
    if (!existsSync(path)) makeSecretKey(path)
  } catch (thrown) {
    if (existsSync(path)) return path
    const refusal = writeRefusal((thrown as Error).cause)
    throw refusal instanceof BoxofficeError ? refusal : thrown
  }
  return path
}
