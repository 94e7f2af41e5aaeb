import { randomBytes } from 'node:crypto'
import { askPostgres, type Postgres, startPostgres } from '../../../../apps/broker/test/support/postgres.ts'
import { type DatabaseName, PLACE } from './place.ts'

/** Has the URL of a database with the schema of Boxoffice, which nobody connects to: others are made after it. */
export const TEMPLATE_URL = 'BOXOFFICE_TEST_POSTGRES'

/** Of the brokers of a stack. `url`: undefined for SQLite. */
export type StackDatabase = AsyncDisposable & { url?: string; ownServer?: Postgres }

/** PostgreSQL that is named is a server of one's own; where the place says it, it is a database on the server of the run. */
export const openDatabase = async (named: DatabaseName | undefined): Promise<StackDatabase> => {
  if (named === 'postgres') {
    const ownServer = await startPostgres()
    return { url: await ownServer.database(), ownServer, [Symbol.asyncDispose]: () => ownServer[Symbol.asyncDispose]() }
  }
  if (named === undefined && PLACE.database === 'postgres') return databaseOfRun()
  return { [Symbol.asyncDispose]: async () => {} }
}

const databaseOfRun = async (): Promise<StackDatabase> => {
  const { [TEMPLATE_URL]: template } = process.env
  if (template === undefined) throw new Error(`${TEMPLATE_URL} is not set; vitest's projects on PostgreSQL set it (postgres-server.ts)`)
  const urlOf = (database: string): string => new URL(`/${database}`, template).href
  const name = `stack_${randomBytes(8).toString('hex')}`
  await askPostgres(urlOf('postgres'), `CREATE DATABASE ${name} TEMPLATE ${new URL(template).pathname.slice(1)}`)
  return {
    url: urlOf(name),
    async [Symbol.asyncDispose]() {
      await askPostgres(urlOf('postgres'), `DROP DATABASE ${name} WITH (FORCE)`)
    },
  }
}
