import { VERSION } from '@boxoffice/kit/version'
import { Command } from 'commander'

/** In the order of `--help`. */
const COMMANDS: Readonly<Record<string, () => Promise<Command>>> = {
  up: async () => (await import('./commands/up.ts')).upCommand(),
  broker: async () => (await import('./commands/broker.ts')).brokerCommand(),
  agent: async () => (await import('./commands/agent.ts')).agentCommand(),
  migrate: async () => (await import('./commands/database/migrate.ts')).migrateCommand(),
  exec: async () => (await import('./commands/exec.ts')).execCommand(),
  shell: async () => (await import('./commands/shell.ts')).shellCommand(),
  cp: async () => (await import('./commands/cp.ts')).cpCommand(),
  'port-forward': async () => (await import('./commands/port-forward.ts')).portForwardCommand(),
  ports: async () => (await import('./commands/ports.ts')).portsCommand(),
  egress: async () => (await import('./commands/egress.ts')).egressCommand(),
  ls: async () => (await import('./commands/ls.ts')).lsCommand(),
  sessions: async () => (await import('./commands/sessions.ts')).sessionsCommand(),
  keys: async () => (await import('./commands/keys.ts')).keysCommand(),
  secrets: async () => (await import('./commands/secrets.ts')).secretsCommand(),
  env: async () => (await import('./commands/env.ts')).envCommand(),
  agents: async () => (await import('./commands/agents.ts')).agentsCommand(),
  mcp: async () => (await import('./commands/mcp.ts')).mcpCommand(),
  doctor: async () => (await import('./commands/doctor.ts')).doctorCommand(),
}

/** The command line, or as much of it as a line that begins with `first` needs: a command by itself, else all of them. */
export const createProgram = async (first: string | undefined): Promise<Command> => {
  const program = new Command('boxoffice')
    .description('Short-lived tickets to long-lived sandboxes')
    .version(VERSION)
    // What follows a command's name belongs to it: `boxoffice exec ls -l` needs no --.
    .enablePositionalOptions()
  const named = first !== undefined && Object.hasOwn(COMMANDS, first) ? COMMANDS[first] : undefined
  for (const make of named === undefined ? Object.values(COMMANDS) : [named]) program.addCommand(await make())
  for (const command of [program, ...program.commands, ...program.commands.flatMap((command) => command.commands)])
    command.exitOverride().configureOutput({ outputError: (message, write) => write(usageLine(message)) })
  return program
}

/** Commander's message, which may have a suggestion on a second line, as one of ours. */
const usageLine = (message: string): string =>
  `boxoffice: ${message
    .replace(/^error: /, '')
    .trim()
    .replace(/\s*\n\s*/g, ' ')
    .replace(/\.$/, '')}; --help shows what there is\n`
