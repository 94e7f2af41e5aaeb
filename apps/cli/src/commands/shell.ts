import { once } from 'node:events'
import { isCode, type Shell } from '@boxoffice/client'
import { Command } from 'commander'
import { lightNetwork } from '../network/light-network.ts'
import { type ConnectionFlags, connectTo, withConnection } from '../settings/connection.ts'
import { openSession } from '../settings/open-session.ts'
import { collectEnvironment, type SandboxFlags, withSandbox } from '../settings/sandbox.ts'
import { leave, pour } from '../terminal/output.ts'
import { enterRawMode } from '../terminal/raw-mode.ts'
import { screenOf } from '../terminal/screen.ts'

type ShellFlags = ConnectionFlags & SandboxFlags & { id?: string; cwd?: string; env?: Record<string, string>; detach?: boolean }

export const shellCommand = (): Command =>
  withSandbox(withConnection(new Command('shell')))
    .summary('open an interactive shell in a sandbox')
    .description('Opens an interactive shell in the sandbox of a thread. Exits with its code; 125 when it could not be opened.')
    .option('--id <id>', 'names the shell: one of this name is joined')
    .option('--cwd <path>', 'where it starts; relative to /workspace')
    .option('--env <name=value>', 'a variable for it; may be repeated', collectEnvironment)
    .option('--detach', 'lets it live on when this terminal is gone')
    .passThroughOptions()
    .argument('[cmd...]', 'a program to run in the place of the shell; after --')
    .action(async (argv: string[], flags: ShellFlags) => await leave(await openShell(argv, flags)))

const openShell = async (argv: string[], flags: ShellFlags): Promise<number> => {
  using client = connectTo(flags, lightNetwork())
  const session = await openSession(client, flags.thread, flags.profile)
  const shell = await session.shell({
    ...terminalSize(),
    shellId: flags.id,
    argv: argv.length > 0 ? argv : undefined,
    cwd: flags.cwd,
    env: flags.env,
    detach: flags.detach,
    term: process.env.TERM,
  })
  const restore = enterRawMode(process.stdin)
  const resized = () => {
    const { cols, rows } = terminalSize()
    if (cols !== undefined && rows !== undefined) shell.resize(cols, rows)
  }
  process.stdout.on('resize', resized)
  try {
    sendKeys(shell)
    const ended = Promise.all([shell.exit, pour(screenOf(shell), process.stdout)]).then(([exit]) => exit.exitCode)
    return await Promise.race([ended, hungUp(shell)])
  } finally {
    process.stdout.removeListener('resize', resized)
    restore()
    process.stdin.destroy()
  }
}

const terminalSize = (): { cols?: number; rows?: number } => {
  const { columns, rows } = process.stdout
  return process.stdout.isTTY && columns > 0 && rows > 0 ? { cols: columns, rows } : {}
}

const sendKeys = (shell: Shell): void => {
  const send = async () => {
    for await (const keys of process.stdin) await shell.write(keys)
    // End of a piped input, as a terminal would say it.
    if (!process.stdin.isTTY) await shell.write('\x04')
  }
  send().catch((error: unknown) => {
    // The end of the shell ends the keys; why it ended is told by its exit.
    if (!isCode(error, 'STDIN_CLOSED')) shell.detach()
  })
}

/** The terminal is gone or we are to go: the shell is left, and stays for a while to be joined again. */
const hungUp = (shell: Shell): Promise<number> => {
  const codes = { SIGTERM: 143, SIGHUP: 129 } as const
  return Promise.race(
    Object.entries(codes).map(async ([signal, code]) => {
      await once(process, signal)
      shell.detach()
      return code
    }),
  )
}
