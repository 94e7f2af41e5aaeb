import { Command, InvalidArgumentError } from 'commander'
import { type ConnectionFlags, connectTo, withConnection } from '../settings/connection.ts'
import { printJson, table } from '../terminal/output.ts'

type CreateFlags = ConnectionFlags & { json?: boolean; oneUse?: boolean; expiresIn?: number }

export const enrollTokenCommand = (): Command =>
  new Command('enroll-token')
    .summary('create, list and revoke tokens by which agents register')
    .addCommand(
      withConnection(new Command('create'))
        .summary('make a token; it is shown this once')
        .option('--one-use', 'for one agent only, which may go on using it')
        .option('--expires-in <seconds>', 'new agents are refused after so long; default: never', seconds)
        .option('--json', 'one JSON object: {"id","token"}')
        .argument('<name>', 'to know it by')
        .action(createToken),
    )
    .addCommand(
      withConnection(new Command('list'))
        .summary('list tokens')
        .option('--json', 'one JSON object: {"enroll_tokens":[…]}')
        .action(listTokens),
    )
    .addCommand(
      withConnection(new Command('revoke'))
        .summary('revoke a token: no agent registers with it any more; those that are registered go on')
        .argument('<id>')
        .action(revokeToken),
    )

const seconds = (text: string): number => {
  const value = Number(text)
  if (!Number.isInteger(value) || value < 1) throw new InvalidArgumentError('must be a whole number of seconds')
  return value
}

const createToken = async (name: string, { json, oneUse, expiresIn, ...flags }: CreateFlags): Promise<void> => {
  using client = connectTo(flags)
  const created = await client.enrollTokens.create({ name, oneUse, expiresInSeconds: expiresIn })
  if (json) return printJson(created)
  process.stdout.write(`${created.token}\n`)
  process.stderr.write(`enroll token ${created.id}; it is not shown again\n`)
}

const listTokens = async ({ json, ...flags }: ConnectionFlags & { json?: boolean }): Promise<void> => {
  using client = connectTo(flags)
  const tokens = await client.enrollTokens.list()
  if (json) return printJson({ enroll_tokens: tokens })
  const rows = tokens.map(({ id, name, one_use, created_at, expires_at, used_by, revoked_at }) => [
    id,
    name,
    one_use ? 'one' : 'many',
    created_at,
    expires_at ?? '-',
    used_by ?? '-',
    revoked_at ?? '-',
  ])
  process.stdout.write(table(['ID', 'NAME', 'USES', 'CREATED', 'EXPIRES', 'USED BY', 'REVOKED'], rows))
}

const revokeToken = async (id: string, flags: ConnectionFlags): Promise<void> => {
  using client = connectTo(flags)
  await client.enrollTokens.revoke(id)
}
