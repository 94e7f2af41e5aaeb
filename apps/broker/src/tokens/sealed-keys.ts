import { createPrivateKey } from 'node:crypto'
import type { Log } from '../host/log.ts'
import { type SealContext, seal, unseal } from '../host/sealing.ts'
import type { SecretKeys } from '../host/secret-keys.ts'
import { StartError } from '../host/start-error.ts'
import type { SealedKeyRow, SealedKeyStore } from '../store/sealed-key-store.ts'
import type { FoundKeys, SigningKeyPlace } from './keys.ts'
import { type SigningKey, signingKeyOf } from './signing-key.ts'

export type SealedKeysOptions = { store: SealedKeyStore; secrets: SecretKeys; log: Log }

/** Warnings that are remembered, so that each row has one. */
const MAX_WARNED = 1000

/**
 * The signing keys of a database. A row counts only if it opens with everything that stands beside it, and its public key is taken from
 * what was opened: whoever writes the database can take keys away, and cannot add one.
 */
export class SealedKeys implements SigningKeyPlace {
  readonly #store: SealedKeyStore
  readonly #secrets: SecretKeys
  readonly #log: Log
  #seen: readonly string[] = []
  #opened: ReadonlyMap<string, SigningKey> = new Map()
  /** A key that was withdrawn once stays so while this broker runs, whatever becomes of its row. */
  readonly #withdrawn = new Set<string>()
  readonly #warned = new Set<string>()
  #isFirst = true
  #running: Promise<unknown> = Promise.resolve()
  #next: Promise<FoundKeys> | undefined

  constructor({ store, secrets, log }: SealedKeysOptions) {
    this.#store = store
    this.#secrets = secrets
    this.#log = log
  }

  /** Calls of one moment share a query, which begins after each of them: every report of an agent is such a call. */
  read(): Promise<FoundKeys> {
    this.#next ??= this.#running.then(() => {
      this.#next = undefined
      const found = this.#read()
      this.#running = found.catch(() => {})
      return found
    })
    return this.#next
  }

  async #read(): Promise<FoundKeys> {
    const rows = await this.#store.list()
    this.#seen = rows.map(({ kid }) => kid)
    for (const { kid, withdrawnAt } of rows) if (withdrawnAt !== null) this.#withdrawn.add(kid)
    const inUse = rows.filter(({ kid }) => !this.#withdrawn.has(kid))
    const opened = new Map<string, SigningKey>()
    for (const row of inUse) {
      const key = await this.#open(row)
      if (key !== undefined) opened.set(textOf(row), key)
    }
    if (this.#isFirst && inUse.length > 0 && opened.size === 0) throw this.#refusal(inUse)
    this.#isFirst = false
    this.#opened = opened
    return { keys: [...opened.values()], withdrawn: new Set(this.#withdrawn) }
  }

  async add(key: SigningKey, createdAt: number): Promise<boolean> {
    const row = { kid: key.kid, jwk: JSON.stringify(key.jwk), activeAt: key.activeAt, createdAt, withdrawnAt: null }
    const secret = key.privateKey.export({ format: 'der', type: 'pkcs8' })
    return this.#store.insert({ ...row, ...seal(this.#secrets, secret, contextOf(row)) }, this.#seen)
  }

  remove(kids: readonly string[]): Promise<void> {
    return kids.length === 0 ? Promise.resolve() : this.#store.remove(kids)
  }

  async withdraw(kids: readonly string[], at: number): Promise<void> {
    for (const kid of kids) this.#withdrawn.add(kid)
    await this.#store.withdraw(kids, at)
  }

  async forgetWithdrawn(before: number): Promise<void> {
    const rows = await this.#store.list()
    await this.remove(rows.filter(({ withdrawnAt }) => withdrawnAt !== null && withdrawnAt < before).map(({ kid }) => kid))
  }

  async #open(row: SealedKeyRow): Promise<SigningKey | undefined> {
    const text = textOf(row)
    const known = this.#opened.get(text)
    if (known !== undefined) return known
    try {
      return await openRow(this.#secrets, row)
    } catch (thrown) {
      if (this.#warned.has(text)) return undefined
      if (this.#warned.size >= MAX_WARNED) this.#warned.clear()
      this.#warned.add(text)
      const names = { kid: row.kid.slice(0, 64), kek_id: row.kekId.slice(0, 64), known_kek_ids: this.#secrets.ids }
      this.#log.warn({ ...names, why: (thrown as Error).message }, 'a signing key of the database does not count')
      return undefined
    }
  }

  #refusal(rows: readonly SealedKeyRow[]): StartError {
    const { ids } = this.#secrets
    const missing = [...new Set(rows.map(({ kekId }) => kekId.slice(0, 64)))].filter((id) => !ids.includes(id)).slice(0, 8)
    return new StartError(
      missing.length > 0
        ? `the signing keys of the database are sealed under the key ${missing.join(', ')}; the secret key file (--secret-key-file) has ${ids.join(', ')}. Give all brokers the same file, with that key in it`
        : `the signing keys of the database do not open with the key ${ids.join(', ')} of their id: their rows were changed. Restore the table signing_keys, or empty it: a new key is made then, and clients need other tokens`,
    )
  }
}

const textOf = (row: SealedKeyRow): string => JSON.stringify([row.kid, row.jwk, row.activeAt, row.createdAt, row.kekId, row.sealed])

type Described = Pick<SealedKeyRow, 'kid' | 'jwk' | 'activeAt' | 'createdAt'>

/** All that brokers believe of a row. */
export const contextOf = ({ kid, jwk, activeAt, createdAt }: Described): SealContext => ['signing_keys', kid, jwk, activeAt, createdAt]

/** Throws unless the row is whole and its public parts follow from the private one. */
async function openRow(secrets: SecretKeys, row: SealedKeyRow): Promise<SigningKey> {
  const secret = unseal(secrets, row, contextOf(row))
  const key = await signingKeyOf(createPrivateKey({ key: secret, format: 'der', type: 'pkcs8' }), row.activeAt)
  if (key.kid !== row.kid || JSON.stringify(key.jwk) !== row.jwk) throw new Error('its public key is not that of its private one')
  return key
}
