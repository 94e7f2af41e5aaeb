import { Command } from 'commander'
import { type ConnectionFlags, resolveConnection, withConnection } from '../settings/connection.ts'
import { printJson } from '../terminal/output.ts'

export const envCommand = (): Command =>
  withConnection(new Command('env'))
    .summary('print what a program needs to reach the broker')
    .description('Prints BOXOFFICE_URL and BOXOFFICE_API_KEY as shell commands: eval "$(boxoffice env)"')
    .option('--json', 'one JSON object: {"BOXOFFICE_URL","BOXOFFICE_API_KEY"}')
    .action(env)

const env = ({ json, ...flags }: ConnectionFlags & { json?: boolean }): void => {
  const { broker, apiKey } = resolveConnection(flags)
  const variables = { BOXOFFICE_URL: broker, BOXOFFICE_API_KEY: apiKey }
  if (json) return printJson(variables)
  for (const [name, value] of Object.entries(variables)) process.stdout.write(`export ${name}='${value.replaceAll("'", `'\\''`)}'\n`)
}
