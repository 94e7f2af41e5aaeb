import { isCode, type Run, type Command as SandboxCommand } from '@boxoffice/client'
import { Command } from 'commander'
import { lightNetwork } from '../network/light-network.ts'
import { type ConnectionFlags, connectTo, withConnection } from '../settings/connection.ts'
import { openSession } from '../settings/open-session.ts'
import { collectEnvironment, type SandboxFlags, withSandbox } from '../settings/sandbox.ts'
import { UsageError } from '../settings/usage-error.ts'
import { BROKEN_PIPE } from '../terminal/broken-pipe.ts'
import { failureLine } from '../terminal/failure.ts'
import { leave, pour } from '../terminal/output.ts'

type ExecFlags = ConnectionFlags &
  SandboxFlags & { cwd?: string; env?: Record<string, string>; timeout?: number; interactive?: boolean; command?: string }

const OWN_FAILURE = 125

export const execCommand = (): Command =>
  withSandbox(withConnection(new Command('exec')))
    .summary('run a command in a sandbox')
    .description(
      'Runs a command in the sandbox of a thread, with its input, output and signals. Exits with its code: 128+n after a signal, ' +
        '124 after a timeout, 125 when it could not be run.',
    )
    .option('--cwd <path>', 'where to run it; relative to /workspace')
    .option('--env <name=value>', 'a variable for it; may be repeated', collectEnvironment)
    .option('--timeout <seconds>', 'ends it after so long', seconds)
    .option('-i, --interactive', 'send standard input although it is a terminal')
    .option('-c, --command <text>', "a line for the sandbox's shell, in the place of CMD")
    .passThroughOptions()
    .argument('[cmd...]', 'program and arguments, run without a shell; after --')
    .action(async (argv: string[], flags: ExecFlags) => await leave(await exec(commandOf(argv, flags), flags)))

const exec = async (command: SandboxCommand, flags: ExecFlags): Promise<number> => {
  using client = connectTo(flags, lightNetwork())
  const hasInput = flags.interactive === true || !process.stdin.isTTY
  const session = await openSession(client, flags.thread, flags.profile)
  const run = await session.exec.start(command, {
    cwd: flags.cwd,
    env: flags.env,
    timeoutSeconds: flags.timeout,
    stdin: hasInput ? 'open' : 'closed',
  })
  const stopForwarding = forwardSignals(run)
  const broken = brokenPipe(run)
  try {
    if (hasInput) sendInput(run)
    return await Promise.race([finish(run), broken])
  } finally {
    stopForwarding()
    process.stdin.destroy()
  }
}

const finish = async (run: Run): Promise<number> => {
  const [{ exitCode, spawnError }] = await Promise.all([run.exit, pour(run.stdout, process.stdout), pour(run.stderr, process.stderr)])
  if (spawnError !== null) process.stderr.write(`boxoffice: the command could not start: ${spawnError.message}\n`)
  return exitCode
}

const sendInput = (run: Run): void => {
  run.stdin.from(process.stdin).catch((error: unknown) => {
    // A command may end, or close its input, before it has read all of ours.
    if (!isCode(error, 'STDIN_CLOSED')) process.stderr.write(`${failureLine(error)}\n`)
  })
}

const FORWARDED = { SIGINT: 'INT', SIGTERM: 'TERM', SIGHUP: 'HUP', SIGQUIT: 'QUIT' } as const

/** The command decides what a signal means; a third interrupt ends us although it does not. */
const forwardSignals = (run: Run): (() => void) => {
  const listeners = Object.entries(FORWARDED).map(([name, signal]) => {
    let count = 0
    const listener = () => {
      run.signal(signal)
      if (signal !== 'INT' || ++count < 3) return
      process.stderr.write('boxoffice: interrupted three times; the command may go on in the sandbox\n')
      process.exit(130)
    }
    process.on(name, listener)
    return { name, listener }
  })
  return () => {
    for (const { name, listener } of listeners) process.removeListener(name, listener)
  }
}

/** Whoever read our output is gone (`| head`): so is the need for the command. */
const brokenPipe = (run: Run): Promise<number> =>
  new Promise((resolve) => {
    for (const stream of [process.stdout, process.stderr]) {
      stream.on('error', (error: NodeJS.ErrnoException) => {
        run.signal('TERM')
        run.close()
        resolve(error.code === 'EPIPE' ? BROKEN_PIPE : OWN_FAILURE)
      })
    }
  })

const commandOf = (argv: string[], { command }: ExecFlags): SandboxCommand => {
  if (command !== undefined && argv.length > 0) throw new UsageError('give a command either after -- or with -c, not both')
  if (command !== undefined) return command
  if (argv.length === 0) throw new UsageError('no command: boxoffice exec [options] -- CMD…')
  return argv
}

const seconds = (text: string): number => {
  const value = Number(text)
  if (!(value > 0)) throw new UsageError(`--timeout: must be a number of seconds above 0, not ${JSON.stringify(text)}`)
  return value
}
