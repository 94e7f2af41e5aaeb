import { createHash } from 'node:crypto'
import { closeSync, fstatSync, openSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import { StartError } from './start-error.ts'

/** A key-encryption key, 32 bytes. `id`: the first 8 bytes of its SHA-256 in hex; it names the key in rows and messages. */
export type SecretKey = { id: string; key: Buffer }

export const KEY_BYTES = 32
const ID_BYTES = 8
/** Base64url of 32 bytes without padding. */
const LINE = /^[A-Za-z0-9_-]{43}$/
const MAX_FILE_BYTES = 64 * 1024
const MAKE = 'make one with: boxoffice keys make-secret-key FILE'

/**
 * The keys of a secret key file, one base64url line each: the first seals, all open. The file is read again when it has changed and a
 * key is needed, so that a key can be added on all brokers without a restart.
 */
export class SecretKeys {
  readonly #path: string
  #keys: readonly SecretKey[]
  #seen: string

  /** Throws `StartError`, which names the file and never quotes it. */
  constructor(path: string) {
    this.#path = path
    this.#seen = stampOf(path)
    this.#keys = readSecretKeys(path)
  }

  /** The key that seals. A file that has become unusable changes nothing here. */
  get first(): SecretKey {
    this.#refresh()
    return this.#keys[0] as SecretKey
  }

  get ids(): string[] {
    return this.#keys.map(({ id }) => id)
  }

  find(id: string): SecretKey | undefined {
    const known = this.#keys.find((key) => key.id === id)
    if (known !== undefined) return known
    this.#refresh()
    return this.#keys.find((key) => key.id === id)
  }

  #refresh(): void {
    const stamp = stampOf(this.#path)
    if (stamp === this.#seen) return
    try {
      this.#keys = readSecretKeys(this.#path)
      this.#seen = stamp
    } catch (thrown) {
      if (!(thrown instanceof StartError)) throw thrown
    }
  }
}

/** Changes with the file, also with the link that a mounted Secret is replaced by. */
function stampOf(path: string): string {
  const { ino, mtimeMs, size } = statSync(path, { throwIfNoEntry: false }) ?? { ino: 0, mtimeMs: 0, size: 0 }
  return `${ino}:${mtimeMs}:${size}`
}

function readSecretKeys(path: string): SecretKey[] {
  const lines = contentOf(path)
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
  if (lines.length === 0) throw refusal(path, `has no key; ${MAKE}`)
  return lines.map((line, at) => {
    const key = Buffer.from(line, 'base64url')
    if (!LINE.test(line) || key.length !== KEY_BYTES)
      throw refusal(path, `has no key of ${KEY_BYTES} bytes as base64url at key ${at + 1}; ${MAKE}`)
    if (new Set(key).size < 8) throw refusal(path, `has a key that is too simple at key ${at + 1}; ${MAKE}`)
    return { id: createHash('sha256').update(key).digest().subarray(0, ID_BYTES).toString('hex'), key }
  })
}

function contentOf(path: string): string {
  let file: number | undefined
  try {
    file = openSync(path, 'r')
    const { mode, uid, size } = fstatSync(file)
    if ((mode & 0o170000) !== 0o100000 || size > MAX_FILE_BYTES) throw refusal(path, 'is no file of keys')
    // The kubelet lets the group of a pod (fsGroup) read a mounted Secret.
    const forbidden = isMountedSecret(path) ? 0o037 : 0o077
    if ((mode & forbidden) !== 0)
      throw refusal(
        path,
        `can be read by others (mode ${(mode & 0o777).toString(8)}); run chmod 600 on it, or mount the Secret with defaultMode 0400`,
      )
    if (uid !== 0 && uid !== process.geteuid?.()) throw refusal(path, 'belongs to another user; whoever starts the broker must own it')
    return readFileSync(file, 'utf8')
  } catch (thrown) {
    if (thrown instanceof StartError) throw thrown
    const { code = 'unknown error' } = thrown as NodeJS.ErrnoException
    throw refusal(path, code === 'ENOENT' ? `is not there; ${MAKE}` : `cannot be read (${code})`)
  } finally {
    if (file !== undefined) closeSync(file)
  }
}

/** A key of a mounted Secret lies in a directory `..<time>`, to which links lead. */
const isMountedSecret = (path: string): boolean => basename(dirname(realpathSync(path))).startsWith('..')

const refusal = (path: string, why: string): StartError => new StartError(`the secret key file ${path} (--secret-key-file) ${why}`)
