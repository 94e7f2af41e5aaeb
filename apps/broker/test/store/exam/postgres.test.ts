import { afterAll, beforeAll } from 'vitest'
import { openPostgresStore } from '../../../src/store/postgres/postgres-store.ts'
import { type Postgres, startPostgres } from '../../support/postgres.ts'
import { mcpServerCases } from './cases/tables/mcp-servers.ts'
import { signingKeyCases } from './cases/tables/signing-keys.ts'
import { type ExamDatabase, storeExam } from './exam.ts'

let postgres: Postgres
beforeAll(async () => {
  postgres = await startPostgres()
})
afterAll(() => postgres[Symbol.asyncDispose]())

const openDatabase = async (): Promise<ExamDatabase> => {
  const parts = new AsyncDisposableStack()
  const url = await postgres.database()
  return {
    open: async () => parts.use(await openPostgresStore(url)),
    sql: async (statement) => {
      await postgres.ask(statement, [], url)
    },
    [Symbol.asyncDispose]: () => parts.disposeAsync(),
  }
}

storeExam('PostgreSQL', openDatabase, [
  ['keeps sealed signing keys', signingKeyCases],
  ['leases MCP servers', mcpServerCases],
])
