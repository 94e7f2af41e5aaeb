import type { AuditEntry } from '../../../domain/audit-entry.ts'
import type { HeldChange } from '../../store.ts'
import type { Db } from '../engine/database.ts'
import type { Write } from '../engine/writer.ts'
import type { AppendAudit } from './audit.ts'

export type Revocations = {
  /** When the row was revoked, in milliseconds; null for one that is good. */
  at(row: { id: string; revoked_at: number | null }): number | null
  /** False for a row that is not there or was revoked before. */
  revoke(id: string, now: number, audit: readonly AuditEntry[]): Promise<boolean>
}

/** The revocations of a table. One that the disk has no space for counts from memory until it is written. */
export function sqliteRevocations(
  db: Db,
  write: Write,
  appendAudit: AppendAudit,
  { table, kind }: { table: 'api_keys' | 'enroll_tokens'; kind: Exclude<HeldChange['kind'], 'release'> },
): Revocations {
  const update = db.prepare(`UPDATE ${table} SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL`)
  const unwritten = new Map<string, number>()
  return {
    at: ({ id, revoked_at }) => revoked_at ?? unwritten.get(id) ?? null,
    revoke: async (id, now, audit) =>
      unwritten.has(id)
        ? false
        : write.vital(
            () => {
              if (update.run(now, id).changes === 0) return false
              appendAudit(audit)
              return true
            },
            {
              hold: () => {
                unwritten.set(id, now)
                return true
              },
              release: () => void unwritten.delete(id),
              change: { kind, id, at: now },
            },
          ),
  }
}
