import { VERSION } from '@boxoffice/kit/version'
import { Command, InvalidArgumentError } from 'commander'
import type { RunFlags } from './run.ts'

const SAFETY = `
Safety:
  A session is a temporary directory, and a step is a subprocess in it: not a container and not a virtual machine.
  Steps run as the same OS user as this server, with the python3 and /bin/bash of this machine; they can read and change
  whatever that user can, and use its network, CPU and disk. There is no authentication: keep it on 127.0.0.1.

Environment:
  SBS_STEP_TIMEOUT_SEC  seconds that a step may take (default 30, at least 1); read when the server starts`

/** The command line of `sbs`, which is also called `session-based-sandbox` [3-40..3-44]. */
export const createSbsProgram = (name: string): Command => {
  const program = new Command(name).description('One HTTP session, one temporary working directory, bash and Python steps').version(VERSION)
  const run = new Command('run')
    .summary('serve the HTTP API')
    .description('Serves the HTTP API until it is stopped; then every session ends and its directory is removed.')
    .option('--host <address>', 'where to listen', '127.0.0.1')
    .option('--port <port>', 'the port; 0 for a free one', portOf, 8000)
    .option('--allow-remote', 'allow an address that other machines can reach, although there is no authentication', false)
    .addHelpText('after', SAFETY)
    .action(async (flags: RunFlags) => (await import('./run.ts')).run(flags))
  program.addCommand(run).addHelpText('after', SAFETY)
  for (const command of [program, run])
    command.exitOverride().configureOutput({
      outputError: (message, write) => write(`${name}: ${message.replace(/^error: /, '').trim()}; --help shows what there is\n`),
    })
  return program
}

const portOf = (text: string): number => {
  const port = Number(text)
  if (/^\d+$/.test(text) && port <= 65_535) return port
  throw new InvalidArgumentError('must be a number from 0 to 65535')
}
