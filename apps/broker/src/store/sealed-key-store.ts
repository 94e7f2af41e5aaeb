/**
 * One signing key as the database has it. `sealed` is the private part under the key-encryption key `kekId`, with all of the row's
 * other columns but `withdrawnAt` as associated data. `jwk` is the public part, JSON text. Times in Unix milliseconds.
 */
export type SealedKeyRow = {
  kid: string
  jwk: string
  activeAt: number
  createdAt: number
  withdrawnAt: number | null
  sealed: string
  kekId: string
}

/**
 * The signing keys that brokers share through a database. What a row says counts only once it has been decrypted, so the store
 * judges nothing. Every write but `insert` is repeatable.
 */
export interface SealedKeyStore {
  /** All rows, also withdrawn ones, in any order. */
  list(): Promise<SealedKeyRow[]>
  /**
   * Inserts the row unless the table has a `kid` that is not among `seen`: another broker has added a key since the caller looked.
   * False then, and nothing is written. Callers exclude each other (one advisory lock), so of several with the same `seen` one wins.
   */
  insert(row: SealedKeyRow, seen: readonly string[]): Promise<boolean>
  /** Deletes rows. */
  remove(kids: readonly string[]): Promise<void>
  /** Sets `withdrawnAt` where it is null. */
  withdraw(kids: readonly string[], at: number): Promise<void>
  /** Replaces `sealed` and `kekId` of the row while its `sealed` is still `before`; false when it has changed or is gone. */
  reseal(kid: string, before: string, after: Pick<SealedKeyRow, 'sealed' | 'kekId'>): Promise<boolean>
}
