import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { AuditFilter } from '../../src/domain/audit-entry.ts'
import { type Db, openDatabase } from '../../src/store/sqlite/engine/database.ts'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { auditQuery } from '../../src/store/sqlite/tables/audit.ts'
import type { Store } from '../../src/store/store.ts'
import { removeDir, tempDir } from '../support/test-broker.ts'

const ALL: AuditFilter = {
  tenant: null,
  event: null,
  sessionId: null,
  threadId: null,
  caller: null,
  since: null,
  until: null,
  limit: 2,
  before: null,
}

let directory: string
let db: Db
let store: Store
beforeAll(async () => {
  directory = tempDir()
  store = await openSqliteStore(join(directory, 'broker.db'))
  db = await openDatabase(join(directory, 'broker.db'))
})
afterAll(async () => {
  db.close()
  await store[Symbol.asyncDispose]()
  removeDir(directory)
})

const plan = (fields: Partial<AuditFilter>): string[] => {
  const [sql, values] = auditQuery({ ...ALL, ...fields })
  const rows = db.prepare<unknown[], { detail: string }>(`EXPLAIN QUERY PLAN ${sql}`).all(...values)
  return rows.map(({ detail }) => detail)
}

describe('[C-72] the audit log is asked', () => {
  const filters: [Partial<AuditFilter>, string][] = [
    [{ tenant: 't' }, 'audit_tenant'],
    [{ event: 'key.create' }, 'audit_event'],
    [{ sessionId: 's' }, 'audit_session'],
    [{ threadId: 't' }, 'audit_thread'],
    [{ caller: 'c' }, 'audit_caller'],
    [{ since: 1 }, 'audit_ts'],
    [{ until: 1 }, 'audit_ts'],
    [{ tenant: 't', event: 'key.create' }, 'audit_event'],
    [{ tenant: 't', since: 1, event: 'key.create' }, 'audit_ts'],
    [{ sessionId: 's', since: 1 }, 'audit_session'],
  ]
  test.each(filters)('for %j through an index, from any page on', (filter, index) => {
    for (const fields of [filter, { ...filter, before: 7 }]) {
      const found = plan(fields)
      expect(found.some((line) => line.startsWith('SEARCH audit') && line.includes(index))).toBe(true)
      expect(found.filter((line) => line.startsWith('SCAN'))).toEqual([])
      // Many rows may fit: they come in their order, as far as the page goes.
      if (filter.sessionId === undefined) expect(found.filter((line) => line.includes('TEMP B-TREE'))).toEqual([])
    }
  })

  test('page after page, each entry once, newest first', async () => {
    const event = 'key.create'
    const entry = { requestId: null, event, tenant: 't', caller: 'c', actor: null, threadId: null, sessionId: null } as const
    const rest = { sandboxId: null, outcome: 'ok', code: null, ip: null, tokenHash: null, data: null } as const
    for (const ts of [10, 30, 20, 30, 40]) await store.audit.append([{ ...entry, ...rest, ts }])
    const pages = async (fields: Partial<AuditFilter>) => {
      const seen: number[] = []
      let before: number | null = null
      for (;;) {
        const page = await store.audit.query({ ...ALL, ...fields, before })
        seen.push(...page.map(({ ts }) => ts))
        if (page.length < ALL.limit) return seen
        before = page.at(-1)?.id ?? null
      }
    }
    expect(await pages({ event })).toEqual([40, 30, 20, 30, 10])
    expect(await pages({ event, since: 20 })).toEqual([40, 30, 30, 20])
    expect(await pages({ until: 30 })).toEqual([30, 30, 20, 10])
  })
})
