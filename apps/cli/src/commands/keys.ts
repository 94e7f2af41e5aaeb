import { Command, Option } from 'commander'
import { type ConnectionFlags, connectTo, withConnection } from '../settings/connection.ts'
import { printJson, table } from '../terminal/output.ts'
import { makeSecretKeyCommand, rekeyCommand } from './database/secret-keys.ts'

type CreateFlags = ConnectionFlags & { json?: boolean; principal: string; role: 'user' | 'operator'; right?: string[]; tenant?: string }

export const keysCommand = (): Command =>
  new Command('keys')
    .summary('create, list and revoke API keys; rotate the keys that sign tokens')
    .addCommand(
      withConnection(new Command('create'))
        .summary('make a key; it is shown this once')
        .option('--json', 'one JSON object: {"id","key"}')
        .requiredOption('--principal <id>', 'who it is for')
        .addOption(new Option('--role <role>').choices(['user', 'operator']).default('user'))
        .option('--right <right...>', 'act_as, release or box; may be repeated')
        .option('--tenant <id>', 'default: your own')
        .argument('<name>', 'to know it by')
        .action(createKey),
    )
    .addCommand(withConnection(new Command('list')).summary('list keys').option('--json', 'one JSON object: {"keys":[…]}').action(listKeys))
    .addCommand(withConnection(new Command('revoke')).summary('revoke a key; in force within 2 s').argument('<id>').action(revokeKey))
    .addCommand(
      withConnection(new Command('rotate'))
        .summary('rotate the keys that sign session tokens')
        .option('--now', 'for a leaked key: withdraw the present ones at once; clients get other tokens and go on')
        .option('--json', 'one JSON object: {"kid","withdrawn","agents_told","agents_not_reached"}')
        .action(rotateSigningKeys),
    )
    .addCommand(makeSecretKeyCommand())
    .addCommand(rekeyCommand())

type RotateFlags = ConnectionFlags & { now?: boolean; json?: boolean }

const rotateSigningKeys = async ({ now = false, json, ...flags }: RotateFlags): Promise<void> => {
  using client = connectTo(flags)
  const rotated = await client.keys.rotateSigning({ now })
  if (json) return printJson(rotated)
  if (rotated.kid === null) {
    process.stdout.write('the next key is published; it signs once every agent can know it\n')
    return
  }
  process.stdout.write(`key ${rotated.kid} signs; tokens of earlier keys are refused by ${rotated.agents_told} agents\n`)
  for (const id of rotated.agents_not_reached)
    process.stderr.write(`agent ${id} was not reached; it refuses them with the answer to its next report\n`)
}

const createKey = async (name: string, { principal, role, right, tenant, json, ...flags }: CreateFlags): Promise<void> => {
  using client = connectTo(flags)
  const created = await client.keys.create({ name, principal, role, rights: right ?? [], tenant })
  if (json) return printJson(created)
  process.stdout.write(`${created.key}\n`)
  process.stderr.write(`key ${created.id} for ${principal}; it is not shown again\n`)
}

const listKeys = async ({ json, ...flags }: ConnectionFlags & { json?: boolean }): Promise<void> => {
  using client = connectTo(flags)
  const keys = await client.keys.list()
  if (json) return printJson({ keys })
  const rows = keys.map(({ id, name, principal, role, rights, created_at }) => [
    id,
    name,
    principal,
    role,
    rights.join(',') || '-',
    created_at ?? '-',
  ])
  process.stdout.write(table(['ID', 'NAME', 'PRINCIPAL', 'ROLE', 'RIGHTS', 'CREATED'], rows))
}

const revokeKey = async (id: string, flags: ConnectionFlags): Promise<void> => {
  using client = connectTo(flags)
  await client.keys.revoke(id)
}
