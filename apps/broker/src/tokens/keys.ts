import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, randomUUID } from 'node:crypto'
import { linkSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Jwks } from '@boxoffice/protocol'
import { calculateJwkThumbprint } from 'jose'
import { writeRefusal } from '../host/disk-error.ts'
import { StartError } from '../host/start-error.ts'

/** One Ed25519 key pair. `activeAt` (ms) is when it starts to sign; it is published before that. */
export type SigningKey = { kid: string; activeAt: number; privateKey: KeyObject; jwk: Jwks['keys'][number] }

/**
 * JWKS are cached for 300 s [C-49]: a key is published for longer than that before it signs, so no agent ever meets a token
 * whose key it could not have.
 */
const PUBLISH_AHEAD_MS = 330_000
/** A key stays published for longer than the longest token after its successor has taken over. */
const OVERLAP_MS = (3600 + 300) * 1000
/** An empty file of this ending says that the key of its name has been withdrawn. */
const WITHDRAWN = '.withdrawn'

/**
 * The signing keys of a data directory, one file each (`keys/<activeAt>-<kid>.json`, mode 0600), so that brokers sharing it
 * need no lock: whoever adds a key links a finished file into place, the others see it when they look again.
 */
export class SigningKeys {
  readonly #directory: string
  readonly #now: () => number
  #keys: SigningKey[] = []
  #withdrawn: ReadonlySet<string> = new Set()
  #seen = ''

  private constructor(directory: string, now: () => number) {
    this.#directory = directory
    this.#now = now
  }

  /** Reads the keys of the data directory; makes the first one when there is none. */
  static async open(dataDir: string, now: () => number): Promise<SigningKeys> {
    const keys = new SigningKeys(join(dataDir, 'keys'), now)
    mkdirSync(keys.#directory, { recursive: true, mode: 0o700 })
    await keys.reload()
    if (keys.#keys.length === 0) await keys.#add(now())
    return keys
  }

  /** The key that signs now: the newest that is active. */
  get current(): SigningKey {
    const now = this.#now()
    const current = this.#keys.findLast((key) => key.activeAt <= now) ?? this.#keys[0]
    if (current === undefined) throw new Error('no signing key')
    return current
  }

  /** What `/.well-known/jwks.json` shows: keys in use, before and after [C-49]. */
  get jwks(): Jwks {
    return { keys: this.#keys.map(({ jwk }) => jwk) }
  }

  /** Whether a key is one of these; those of other brokers are known since keys were last read. */
  has(kid: string): boolean {
    return this.#keys.some((key) => key.kid === kid)
  }

  /** Whether a key has been withdrawn by `replace`, here or by another broker. */
  wasWithdrawn(kid: string): boolean {
    return this.#withdrawn.has(kid)
  }

  /** Adds the next key. It is published at once and signs once every JWKS cache has it. */
  async rotate(): Promise<void> {
    await this.#add(this.#now() + PUBLISH_AHEAD_MS)
  }

  /** For a leaked key: a new one signs at once, and all others count no more [C-49]. Resolves with the ids of those. */
  async replace(): Promise<string[]> {
    await this.reload()
    const withdrawn = this.#keys.map(({ kid }) => kid)
    await this.#add(this.#now())
    // Removed first: that works on a full disk, where the marks for other brokers may not.
    this.#remove(withdrawn)
    for (const kid of withdrawn) this.#markWithdrawn(kid)
    await this.reload()
    this.#withdrawn = new Set([...this.#withdrawn, ...withdrawn])
    return withdrawn
  }

  /** Rotates when the newest key is older than `maxAgeMs`, and drops keys that no token can need any more. */
  async maintain(maxAgeMs: number): Promise<void> {
    await this.reload()
    const now = this.#now()
    const newest = this.#keys.at(-1)
    if (newest !== undefined && now - newest.activeAt > maxAgeMs) await this.rotate()
    const unused = this.#keys.filter((_, i) => (this.#keys[i + 1]?.activeAt ?? Number.POSITIVE_INFINITY) + OVERLAP_MS < now)
    this.#remove(unused.map(({ kid }) => kid))
    this.#forgetWithdrawn()
    if (unused.length > 0) await this.reload()
  }

  /** Looks for keys of other brokers; reads files only when the directory changed. */
  async reload(): Promise<void> {
    const names = readdirSync(this.#directory).sort()
    const files = names.filter((name) => name.endsWith('.json'))
    const seen = names.filter((name) => !name.endsWith('.tmp')).join()
    if (seen === this.#seen && this.#keys.length > 0) return
    const read = await Promise.all(files.map((file) => this.#read(file)))
    this.#keys = read.filter((key) => key !== undefined).sort((a, b) => a.activeAt - b.activeAt || (a.kid < b.kid ? -1 : 1))
    this.#seen = seen
    this.#withdrawn = new Set(names.filter((name) => name.endsWith(WITHDRAWN)).map((name) => name.slice(0, -WITHDRAWN.length)))
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

  #remove(kids: readonly string[]): void {
    for (const name of readdirSync(this.#directory))
      if (name.endsWith('.json') && kids.some((kid) => name.includes(kid))) rmSync(join(this.#directory, name), { force: true })
  }

  /** No token of theirs is in date any more. */
  #forgetWithdrawn(): void {
    for (const kid of this.#withdrawn) {
      const path = join(this.#directory, `${kid}${WITHDRAWN}`)
      const { mtimeMs = 0 } = statSync(path, { throwIfNoEntry: false }) ?? {}
      if (Math.abs(this.#now() - mtimeMs) > OVERLAP_MS) rmSync(path, { force: true })
    }
  }

  async #add(activeAt: number): Promise<void> {
    const { privateKey } = generateKeyPairSync('ed25519')
    const { jwk, kid } = await publicPart(privateKey)
    const temporary = join(this.#directory, `${randomUUID()}.tmp`)
    const content = { kid, active_at: activeAt, created_at: this.#now(), private: privateKey.export({ format: 'jwk' }), public: jwk }
    try {
      writeFileSync(temporary, `${JSON.stringify(content)}\n`, { mode: 0o600, flush: true })
      linkSync(temporary, join(this.#directory, `${activeAt}-${kid}.json`))
    } catch (thrown) {
      throw writeRefusal(thrown)
    } finally {
      rmSync(temporary, { force: true })
    }
    await this.reload()
  }
}

/** Undefined when another broker has just removed it. */
async function readKey(path: string): Promise<SigningKey | undefined> {
  try {
    if ((statSync(path).mode & 0o077) !== 0) throw new Error('its mode lets others read it; run chmod 600 on it')
    const content = JSON.parse(readFileSync(path, 'utf8'))
    const privateKey = createPrivateKey({ key: content.private, format: 'jwk' })
    return { ...(await publicPart(privateKey)), activeAt: Number(content.active_at), privateKey }
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw new StartError(`the signing key ${path} cannot be used: ${(thrown as Error).message}`)
  }
}

async function publicPart(privateKey: KeyObject): Promise<{ kid: string; jwk: Jwks['keys'][number] }> {
  const { x = '' } = createPublicKey(privateKey).export({ format: 'jwk' })
  const kid = await calculateJwkThumbprint({ kty: 'OKP', crv: 'Ed25519', x })
  return { kid, jwk: { kty: 'OKP', crv: 'Ed25519', x, kid, alg: 'EdDSA', use: 'sig' } }
}
