import { afterAll, beforeAll, describe } from 'vitest'
import type { Store } from '../../../src/store/store.ts'
import { creationCases } from './cases/sessions/creation.ts'
import { endingCases } from './cases/sessions/endings.ts'
import { eventCases } from './cases/sessions/events.ts'
import { everythingCases } from './cases/sessions/everything.ts'
import { grantCases } from './cases/sessions/grants.ts'
import { idempotencyCases } from './cases/sessions/idempotency.ts'
import { journalCases } from './cases/sessions/journal.ts'
import { listingCases } from './cases/sessions/listing.ts'
import { savingCases } from './cases/sessions/saving.ts'
import { scopeCases } from './cases/sessions/scopes.ts'
import { watchingCases } from './cases/sessions/watching.ts'
import { workspaceCases } from './cases/sessions/workspaces.ts'
import { agentCases } from './cases/tables/agents.ts'
import { brokerCases } from './cases/tables/brokers.ts'
import { facadeCases } from './cases/tables/facades.ts'
import { oddTextCases } from './cases/tables/odd-text.ts'
import { previewCases } from './cases/tables/previews.ts'
import { secretCases } from './cases/tables/secrets.ts'
import { tenantSecretCases } from './cases/tables/tenant-secrets.ts'
import { undoneCases } from './cases/tables/undone.ts'

/** A database of its own. Each store that is opened on it is one that a broker of its own has; they are closed with it. */
export type ExamDatabase = AsyncDisposable & {
  open(): Promise<Store>
  /** Runs one statement by hand. */
  sql(statement: string): Promise<void>
}

/** Two stores on one database, as two brokers have them. Tests share them, so each has tenants, agents and ids of its own. */
export type Stores = {
  readonly one: Store
  readonly other: Store
  readonly database: ExamDatabase
}

export type Subject = [name: string, cases: (at: Stores) => void]

const SUBJECTS: readonly Subject[] = [
  ['creates sessions', creationCases],
  ['saves sessions', savingCases],
  ['lists and counts sessions', listingCases],
  ['keeps events', eventCases],
  ['tells of new events', watchingCases],
  ["stores agents' journals", journalCases],
  ['waits with the last events of a session', endingCases],
  ['keeps grants', grantCases],
  ['keeps idempotency keys', idempotencyCases],
  ['keeps whose a scope is', scopeCases],
  ['keeps who has a workspace', workspaceCases],
  ['is used by many at once', everythingCases],
  ['registers agents', agentCases],
  ['keeps keys, challenges and the audit log', secretCases],
  ['keeps secrets of tenants', tenantSecretCases],
  ['keeps which brokers there are', brokerCases],
  ['keeps what facades know', facadeCases],
  ['keeps exposed ports', previewCases],
  ['is told any text', oddTextCases],
  ['undoes a change whose audit entry cannot be written', undoneCases],
]

/**
 * Registers a test for each promise of `Store`, what happens at once on two stores of one database included. `own`: what only this kind
 * of database keeps.
 */
export function storeExam(name: string, openDatabase: () => Promise<ExamDatabase>, own: readonly Subject[] = []): void {
  describe.each([...SUBJECTS, ...own])(`${name} %s`, (_, cases) => {
    let opened: Stores | undefined
    const stores = (): Stores => {
      if (opened === undefined) throw new Error('the database is not open')
      return opened
    }
    beforeAll(async () => {
      const database = await openDatabase()
      opened = { one: await database.open(), other: await database.open(), database }
    })
    afterAll(() => opened?.database[Symbol.asyncDispose]())
    cases({
      get one() {
        return stores().one
      },
      get other() {
        return stores().other
      },
      get database() {
        return stores().database
      },
    })
  })
}
