import type { AuditEntry } from '../../../domain/audit-entry.ts'
import type { Write } from '../engine/database.ts'
import { appendAudit } from './audit.ts'

type Revocation = { id: string; now: number; audit: readonly AuditEntry[] }

const UPDATES = {
  api_keys: 'UPDATE api_keys SET revoked_at = $1 WHERE id = $2 AND revoked_at IS NULL',
  enroll_tokens: 'UPDATE enroll_tokens SET revoked_at = $1 WHERE id = $2 AND revoked_at IS NULL',
} as const

/** False for a row that is not there or was revoked before. `now`: Unix milliseconds. */
export const revoke = (write: Write, table: keyof typeof UPDATES, { id, now, audit }: Revocation): Promise<boolean> =>
  write(async (tx) => {
    if ((await tx.run(UPDATES[table], [now, id])) === 0) return false
    await appendAudit(tx, audit)
    return true
  })
