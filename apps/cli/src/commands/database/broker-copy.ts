import { Command } from 'commander'
import { databaseSettings, withDatabase } from '../../settings/database.ts'
import { printJson, table } from '../../terminal/output.ts'

/** Of `boxoffice broker`. */
export const brokerCopyCommand = (): Command =>
  withDatabase(new Command('copy'), ['secretKeyFile'])
    .summary('copy a stopped broker from its data directory into an empty PostgreSQL database')
    .description('Copies everything or nothing, and changes nothing in the directory. Signing keys are sealed under the secret key file.')
    .requiredOption('--from <dir>', 'data directory of the broker')
    .option(
      '--to <url>',
      'postgres://USER:PASSWORD@HOST:PORT/DATABASE (BOXOFFICE_DATABASE_URL, which other users of the machine cannot see)',
    )
    .option('--json', 'one JSON object: {"rows":{"sessions":12,…}}')
    .action(copy)

const copy = async ({ from, json, ...flags }: Record<string, unknown>): Promise<void> => {
  const { databaseUrl, secretKeyFile } = databaseSettings(['databaseUrl', 'secretKeyFile'], flags, { databaseUrl: 'to' })
  const { copyBroker } = await import('@boxoffice/broker')
  const rows = await copyBroker({ from: String(from), to: databaseUrl, secretKeyFile })
  if (json) return printJson({ rows })
  process.stdout.write(
    table(
      ['TABLE', 'ROWS'],
      Object.entries(rows).map(([name, count]) => [name, String(count)]),
    ),
  )
}
