import type { Rekeyed } from '@boxoffice/broker'
import { Command } from 'commander'
import { databaseSettings, optionalDatabaseSettings, withDatabase } from '../../settings/database.ts'
import { leave, printJson } from '../../terminal/output.ts'

/** Of `boxoffice keys`: the keys that secrets of a database are sealed under. */
export const makeSecretKeyCommand = (): Command =>
  new Command('make-secret-key')
    .summary('make the secret key file of brokers on PostgreSQL')
    .option('--add', 'add a key to the file, which seals from now on; the others still open')
    .argument('<file>', 'made with mode 0600; copy it to all brokers')
    .action(makeSecretKey)

const makeSecretKey = async (file: string, { add = false }: { add?: boolean }): Promise<void> => {
  const made = await import('@boxoffice/broker')
  process.stdout.write(`key ${made.makeSecretKey(file, { add })} in ${file}\n`)
}

export const rekeyCommand = (): Command =>
  withDatabase(new Command('rekey'), ['databaseUrl', 'secretKeyFile'])
    .summary('seal the secrets of a database under the first key of the secret key file')
    .option('--data-dir <dir>', 'data directory of a broker without PostgreSQL; its own secret key file is the default')
    .description('Repeatable, and beside running brokers. Exits with 1 if a row could not be sealed anew.')
    .option('--json', 'one JSON object: {"kek_id","resealed","already","changed","unreadable"}')
    .action(rekey)

const rekey = async ({ json, ...flags }: Record<string, unknown>): Promise<void> => {
  const { kekId, resealed, already, changed, unreadable } = await rekeyed(flags)
  const left = unreadable.map((row) => ({ kid: row.kid, kek_id: row.kekId }))
  if (json) printJson({ kek_id: kekId, resealed, already, changed, unreadable: left })
  else process.stdout.write(`${resealed} rows are sealed under ${kekId} now; ${already} were before\n`)
  if (changed > 0) process.stderr.write(`${changed} rows were changed by another program meanwhile; run it again\n`)
  for (const { kid, kek_id } of left) process.stderr.write(`the row ${printable(kid)} is under ${printable(kek_id)} and does not open\n`)
  if (changed + left.length > 0) await leave(1)
}

const rekeyed = async ({ dataDir, ...flags }: Record<string, unknown>): Promise<Rekeyed> => {
  const { rekeyDatabase, rekeyDirectory } = await import('@boxoffice/broker')
  if (dataDir !== undefined) return await rekeyDirectory(String(dataDir), optionalDatabaseSettings(['secretKeyFile'], flags).secretKeyFile)
  const { databaseUrl, secretKeyFile } = databaseSettings(['databaseUrl', 'secretKeyFile'], flags)
  return await rekeyDatabase(databaseUrl, secretKeyFile)
}

/** What the database says goes to a terminal. */
const printable = (text: string): string => text.slice(0, 64).replace(/[^\w-]/g, '?')
