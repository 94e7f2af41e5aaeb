import type { SealedKeyRow, SealedKeyStore } from '../../sealed-key-store.ts'
import type { Database } from '../engine/database.ts'
import { lockNamed } from '../engine/locks.ts'

type Row = {
  kid: string
  jwk: string
  active_at: number
  created_at: number
  withdrawn_at: number | null
  sealed: string
  kek_id: string
}

export function postgresSigningKeys({ read, once, write }: Pick<Database, 'read' | 'once' | 'write'>): SealedKeyStore {
  return {
    list: async () => (await read.rows<Row>('SELECT * FROM signing_keys')).map(toSealedKey),
    insert: (key, seen) =>
      write(async (tx) => {
        await lockNamed(tx, 'signing keys')
        const unseen = await tx.rows('SELECT 1 FROM signing_keys WHERE kid <> ALL($1) LIMIT 1', [seen])
        if (unseen.length > 0) return false
        const { kid, jwk, activeAt, createdAt, withdrawnAt, sealed, kekId } = key
        await tx.run(INSERT, [kid, jwk, activeAt, createdAt, withdrawnAt, sealed, kekId])
        return true
      }),
    remove: async (kids) => {
      await once.run('DELETE FROM signing_keys WHERE kid = ANY($1)', [kids])
    },
    withdraw: async (kids, at) => {
      await once.run('UPDATE signing_keys SET withdrawn_at = $1 WHERE kid = ANY($2) AND withdrawn_at IS NULL', [at, kids])
    },
    reseal: async (kid, before, { sealed, kekId }) => (await once.run(RESEAL, [sealed, kekId, kid, before])) === 1,
  }
}

const INSERT = `INSERT INTO signing_keys (kid, jwk, active_at, created_at, withdrawn_at, sealed, kek_id)
  VALUES ($1, $2, $3, $4, $5, $6, $7)`
const RESEAL = 'UPDATE signing_keys SET sealed = $1, kek_id = $2 WHERE kid = $3 AND sealed = $4'

const toSealedKey = (row: Row): SealedKeyRow => ({
  kid: row.kid,
  jwk: row.jwk,
  activeAt: row.active_at,
  createdAt: row.created_at,
  withdrawnAt: row.withdrawn_at,
  sealed: row.sealed,
  kekId: row.kek_id,
})
