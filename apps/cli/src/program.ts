import { Command } from 'commander'
import { agentCommand } from './commands/agent.ts'
import { agentsCommand } from './commands/agents.ts'
import { brokerCommand } from './commands/broker.ts'
import { cpCommand } from './commands/cp.ts'
import { doctorCommand } from './commands/doctor.ts'
import { envCommand } from './commands/env.ts'
import { execCommand } from './commands/exec.ts'
import { keysCommand } from './commands/keys.ts'
import { lsCommand } from './commands/ls.ts'
import { sessionsCommand } from './commands/sessions.ts'
import { shellCommand } from './commands/shell.ts'
import { upCommand } from './commands/up.ts'

/** The whole command line. What a command needs to run is imported when it runs. */
export const createProgram = (): Command => {
  const program = new Command('boxoffice')
    .description('Short-lived tickets to long-lived sandboxes')
    .version('0.1.0')
    // What follows a command's name belongs to it: `boxoffice exec ls -l` needs no --.
    .enablePositionalOptions()
  for (const command of [
    upCommand(),
    brokerCommand(),
    agentCommand(),
    execCommand(),
    shellCommand(),
    cpCommand(),
    lsCommand(),
    sessionsCommand(),
    keysCommand(),
    envCommand(),
    agentsCommand(),
    doctorCommand(),
  ]) {
    program.addCommand(command)
  }
  for (const command of [program, ...program.commands, ...program.commands.flatMap((command) => command.commands)])
    command.exitOverride().configureOutput({ outputError: (message, write) => write(usageLine(message)) })
  return program
}

/** Commander's message, which may have a suggestion on a second line, as one of ours. */
const usageLine = (message: string): string =>
  `boxoffice: ${message
    .replace(/^error: /, '')
    .trim()
    .replace(/\s*\n\s*/g, ' ')}; --help shows what there is\n`
