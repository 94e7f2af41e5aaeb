import { Command } from 'commander'
import { type ConnectionFlags, connectTo, withConnection } from '../settings/connection.ts'
import { printJson, table } from '../terminal/output.ts'
import { enrollTokenCommand } from './enroll-tokens.ts'

export const agentsCommand = (): Command =>
  new Command('agents')
    .summary('list agents, let one register with another key; tokens by which they register')
    .addCommand(
      withConnection(new Command('list')).summary('list agents').option('--json', 'one JSON object: {"agents":[…]}').action(listAgents),
    )
    .addCommand(
      withConnection(new Command('rekey'))
        .summary('forget the key of an agent that has lost it; its next registration brings another one')
        .argument('<id>')
        .action(rekeyAgent),
    )
    .addCommand(enrollTokenCommand())

const listAgents = async ({ json, ...flags }: ConnectionFlags & { json?: boolean }): Promise<void> => {
  using client = connectTo(flags)
  const agents = await client.agents.list()
  if (json) return printJson({ agents })
  const rows = agents.map(({ id, provider, public_url, connected, last_seen_at }) => [
    id,
    provider.name ?? '-',
    public_url,
    connected ? 'connected' : 'silent',
    last_seen_at,
  ])
  process.stdout.write(table(['AGENT', 'PROVIDER', 'URL', 'STATE', 'LAST SEEN'], rows))
}

const rekeyAgent = async (id: string, flags: ConnectionFlags): Promise<void> => {
  using client = connectTo(flags)
  await client.agents.rekey(id)
}
