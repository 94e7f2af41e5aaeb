import { createHash } from 'node:crypto'
import { BoundedCache } from '@boxoffice/kit/bounded-cache'
import { Profile } from '@boxoffice/protocol'
import type { Sql } from '../engine/database.ts'

/** Profiles as sessions were made with them, once per content; read once by each broker. */
export class Profiles {
  readonly #read: Sql
  readonly #byHash = new BoundedCache<string, Profile>(1000)
  readonly #stored = new WeakMap<Profile, { hash: string; json: string }>()

  constructor(read: Sql) {
    this.#read = read
  }

  /** The row of a profile. */
  rowOf(profile: Profile): { hash: string; json: string } {
    const known = this.#stored.get(profile)
    if (known !== undefined) return known
    const json = JSON.stringify(profile)
    const row = { hash: createHash('sha256').update(json).digest('base64url'), json }
    this.#stored.set(profile, row)
    return row
  }

  /** By their hashes. */
  async of(hashes: readonly string[]): Promise<(hash: string) => Profile> {
    const found = new Map<string, Profile>()
    for (const hash of new Set(hashes)) {
      const known = this.#byHash.get(hash)
      if (known !== undefined) found.set(hash, known)
    }
    const missing = [...new Set(hashes)].filter((hash) => !found.has(hash))
    if (missing.length > 0) {
      const rows = await this.#read.rows<{ hash: string; json: string }>('SELECT hash, json FROM profiles WHERE hash = ANY($1)', [missing])
      for (const { hash, json } of rows) {
        const profile = this.#byHash.getOrMake(hash, () => Profile.parse(JSON.parse(json)))
        found.set(hash, profile)
      }
    }
    return (hash) => {
      const profile = found.get(hash)
      if (profile === undefined) throw new Error(`there is no profile ${hash}`)
      return profile
    }
  }
}
