import { Command } from 'commander'
import { type ConnectionFlags, connectTo, withConnection } from '../settings/connection.ts'
import { UsageError } from '../settings/usage-error.ts'
import { printJson, table } from '../terminal/output.ts'

type SessionsFlags = ConnectionFlags & { json?: boolean; state?: string }

export const sessionsCommand = (): Command =>
  withConnection(new Command('sessions'))
    .summary('list sessions, or end one')
    .option('--json', 'one JSON object: {"sessions":[…]}')
    .option('--state <state>', 'only those in this state')
    .action(listSessions)
    .addCommand(
      withConnection(new Command('release'))
        .summary('end a session: its processes, its sandbox, its workspace')
        .option('--keep-workspace', 'keep its files for the next session of the thread')
        .argument('<session-id>')
        .action(releaseSession),
    )

const listSessions = async (flags: SessionsFlags): Promise<void> => {
  using client = connectTo(flags)
  const sessions = await client.sessions.list({ state: flags.state as never })
  if (flags.json) return printJson({ sessions })
  const rows = sessions.map(({ id, scope, state, provider, profile, created_at }) => [
    id,
    scope.type === 'thread' ? scope.id : `${scope.type}:${scope.id}`,
    state,
    provider ?? '-',
    profile,
    created_at,
  ])
  process.stdout.write(table(['SESSION', 'THREAD', 'STATE', 'PROVIDER', 'PROFILE', 'CREATED'], rows))
}

const releaseSession = async (id: string, flags: ConnectionFlags & { keepWorkspace?: boolean }, command: Command): Promise<void> => {
  // One that has ended is as it should be; the name of a thread is not.
  if (!id.startsWith('ssn_')) throw new UsageError(`${JSON.stringify(id)} is no session's id; \`boxoffice sessions\` lists them (ssn_…)`)
  using client = connectTo(command.optsWithGlobals<ConnectionFlags>())
  await client.sessions.release(id, { keepWorkspace: flags.keepWorkspace ?? false })
}
