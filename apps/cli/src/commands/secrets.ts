import { Command } from 'commander'
import { type ConnectionFlags, connectTo, withConnection } from '../settings/connection.ts'
import { UsageError } from '../settings/usage-error.ts'
import { leave, printJson, table } from '../terminal/output.ts'
import { readSecret } from '../terminal/read-secret.ts'

export const secretsCommand = (): Command =>
  new Command('secrets')
    .summary('set, list and remove secrets that requests of sandboxes carry')
    .addCommand(
      withConnection(new Command('set'))
        .summary('set a secret to what standard input says; a terminal asks for it and does not show it')
        .option('--description <text>', 'default: the one that is there')
        .option('--exact', 'keep the line break at the end of standard input')
        .option('--json', 'one JSON object: {"name","version","created_at","updated_at",…}, never the value')
        .argument('<name>', 'letters, digits, "_", "." and "-"')
        // Commander's own refusal would quote a value that somebody gives here.
        .allowExcessArguments()
        .action(setSecret),
    )
    .addCommand(
      withConnection(new Command('ls'))
        .summary('list secrets, never their values')
        .option('--json', 'one JSON object: {"secrets":[…]}')
        .action(listSecrets),
    )
    .addCommand(
      withConnection(new Command('rm'))
        .summary('remove secrets; sessions lose them within a minute')
        .argument('<name...>')
        .action(removeSecrets),
    )

type SetFlags = ConnectionFlags & { description?: string; exact?: boolean; json?: boolean }

const setSecret = async (name: string, { description, exact = false, json, ...flags }: SetFlags, { args }: Command): Promise<void> => {
  if (args.length > 1) throw new UsageError('secrets set takes one name; the value comes from standard input')
  using client = connectTo(flags)
  const value = await readSecret({ prompt: `Value of ${name}: `, exact })
  if (value === undefined) return await leave(130)
  const secret = await client.secrets.set(name, value, { description })
  if (json) return printJson(secret)
  process.stdout.write(`${secret.name} has version ${secret.version}\n`)
}

const listSecrets = async ({ json, ...flags }: ConnectionFlags & { json?: boolean }): Promise<void> => {
  using client = connectTo(flags)
  const secrets = await client.secrets.list()
  if (json) return printJson({ secrets })
  const rows = secrets.map(({ name, version, updated_at, created_by, description }) => [
    name,
    String(version),
    updated_at,
    created_by,
    printable(description ?? '-'),
  ])
  process.stdout.write(table(['NAME', 'VERSION', 'UPDATED', 'CREATED BY', 'DESCRIPTION'], rows))
}

/** In one line, and without orders to the terminal. */
const printable = (text: string): string => text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, ' ')

const removeSecrets = async (names: readonly string[], flags: ConnectionFlags): Promise<void> => {
  using client = connectTo(flags)
  for (const name of names) await client.secrets.remove(name)
}
