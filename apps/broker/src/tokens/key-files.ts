import { createPrivateKey, randomUUID } from 'node:crypto'
import { linkSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { writeRefusal } from '../host/disk-error.ts'
import { StartError } from '../host/start-error.ts'
import type { FoundKeys, SigningKeyPlace } from './keys.ts'
import { type SigningKey, signingKeyOf } from './signing-key.ts'

/** An empty file of this ending says that the key of its name has been withdrawn. */
const WITHDRAWN = '.withdrawn'

/**
 * The signing keys of a data directory, one file each (`keys/<activeAt>-<kid>.json`, mode 0600), so that brokers sharing it
 * need no lock: whoever adds a key links a finished file into place, the others see it when they look again.
 */
export class KeyFiles implements SigningKeyPlace {
  readonly #directory: string
  #keys: readonly SigningKey[] = []
  #seen = ''

  constructor(dataDir: string) {
    this.#directory = join(dataDir, 'keys')
    mkdirSync(this.#directory, { recursive: true, mode: 0o700 })
  }

  /** Reads files only when the directory has changed. */
  async read(): Promise<FoundKeys | undefined> {
    const names = readdirSync(this.#directory).sort()
    const seen = names.filter((name) => !name.endsWith('.tmp')).join()
    if (seen === this.#seen && this.#keys.length > 0) return undefined
    const files = names.filter((name) => name.endsWith('.json'))
    const keys = (await Promise.all(files.map((file) => this.#read(file)))).filter((key) => key !== undefined)
    this.#keys = keys
    this.#seen = seen
    return { keys, withdrawn: new Set(withdrawnOf(names)) }
  }

  async add({ kid, activeAt, privateKey, jwk }: SigningKey, createdAt: number): Promise<true> {
    const temporary = join(this.#directory, `${randomUUID()}.tmp`)
    const content = { kid, active_at: activeAt, created_at: createdAt, private: privateKey.export({ format: 'jwk' }), public: jwk }
    try {
      writeFileSync(temporary, `${JSON.stringify(content)}\n`, { mode: 0o600, flush: true })
      linkSync(temporary, join(this.#directory, `${activeAt}-${kid}.json`))
    } catch (thrown) {
      throw writeRefusal(thrown)
    } finally {
      rmSync(temporary, { force: true })
    }
    return true
  }

  async remove(kids: readonly string[]): Promise<void> {
    for (const name of readdirSync(this.#directory))
      if (name.endsWith('.json') && kids.some((kid) => name.includes(kid))) rmSync(join(this.#directory, name), { force: true })
  }

  async withdraw(kids: readonly string[]): Promise<void> {
    // Removed first: that works on a full disk, where the marks for other brokers may not.
    await this.remove(kids)
    for (const kid of kids) this.#markWithdrawn(kid)
  }

  async forgetWithdrawn(before: number): Promise<void> {
    for (const kid of withdrawnOf(readdirSync(this.#directory))) {
      const path = join(this.#directory, `${kid}${WITHDRAWN}`)
      const { mtimeMs = 0 } = statSync(path, { throwIfNoEntry: false }) ?? {}
      if (mtimeMs < before) rmSync(path, { force: true })
    }
  }

  /** A file that cannot be read ends the start. Later it changes nothing: what is known by its name stays. */
  #read(file: string): ReturnType<typeof readKey> {
    const known = this.#keys
    return readKey(join(this.#directory, file)).catch((thrown: unknown) => {
      if (known.length === 0) throw thrown
      return known.find(({ kid }) => file.includes(kid))
    })
  }

  #markWithdrawn(kid: string): void {
    try {
      writeFileSync(join(this.#directory, `${kid}${WITHDRAWN}`), '', { mode: 0o600 })
    } catch (thrown) {
      if (writeRefusal(thrown) === thrown) throw thrown
    }
  }
}

const withdrawnOf = (names: readonly string[]): string[] =>
  names.filter((name) => name.endsWith(WITHDRAWN)).map((name) => name.slice(0, -WITHDRAWN.length))

/** Undefined when another broker has just removed it. */
async function readKey(path: string): Promise<SigningKey | undefined> {
  try {
    if ((statSync(path).mode & 0o077) !== 0) throw new Error('its mode lets others read it; run chmod 600 on it')
    const content = JSON.parse(readFileSync(path, 'utf8'))
    return await signingKeyOf(createPrivateKey({ key: content.private, format: 'jwk' }), Number(content.active_at))
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw new StartError(`the signing key ${path} cannot be used: ${(thrown as Error).message}`)
  }
}
