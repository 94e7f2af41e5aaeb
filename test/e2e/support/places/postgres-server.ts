// Set-up of vitest's projects on PostgreSQL: one server for all stacks of a run.
import { startPostgres } from '../../../../apps/broker/test/support/postgres.ts'
import { TEMPLATE_URL } from './database.ts'

export default async (): Promise<(() => Promise<void>) | undefined> => {
  // Another project of this run has started it, or it is somebody's own.
  if (process.env[TEMPLATE_URL] !== undefined) return undefined
  const postgres = await startPostgres()
  process.env[TEMPLATE_URL] = await postgres.database()
  return async () => postgres[Symbol.asyncDispose]()
}
