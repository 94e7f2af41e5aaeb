import { Command } from 'commander'
import { databaseSettings, withDatabase } from '../../settings/database.ts'
import { printJson } from '../../terminal/output.ts'

export const migrateCommand = (): Command =>
  withDatabase(new Command('migrate'), ['databaseUrl'])
    .summary("bring a PostgreSQL database's schema up to date")
    .description('Brings the schema up to date; does nothing where it is. Brokers do the same when they start, unless --migrate never.')
    .option('--json', 'one JSON object: {"from","to"}')
    .action(migrate)

const migrate = async ({ json, ...flags }: Record<string, unknown>): Promise<void> => {
  const { databaseUrl } = databaseSettings(['databaseUrl'], flags)
  const { migrateDatabase } = await import('@boxoffice/broker')
  const { from, to } = await migrateDatabase(databaseUrl)
  if (json) return printJson({ from, to })
  process.stdout.write(from === to ? `schema ${to}: nothing to do\n` : `schema ${from} → ${to}\n`)
}
