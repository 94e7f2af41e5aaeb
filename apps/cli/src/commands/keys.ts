import { Command, Option } from 'commander'
import { type ConnectionFlags, connectTo, withConnection } from '../settings/connection.ts'
import { printJson, table } from '../terminal/output.ts'

type CreateFlags = ConnectionFlags & { json?: boolean; principal: string; role: 'user' | 'operator'; right?: string[]; tenant?: string }

export const keysCommand = (): Command =>
  new Command('keys')
    .summary('create, list and revoke API keys')
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
