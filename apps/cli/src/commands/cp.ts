import { Command } from 'commander'
import { type ConnectionFlags, connectTo, withConnection } from '../settings/connection.ts'
import { type SandboxFlags, withSandbox } from '../settings/sandbox.ts'
import { UsageError } from '../settings/usage-error.ts'
import { type Location, parseLocation } from '../transfer/location.ts'

export const cpCommand = (): Command =>
  withSandbox(withConnection(new Command('cp')))
    .summary('copy files and directories to or from a sandbox')
    .description('Copies a file or a directory. One side is THREAD:PATH (or :PATH, with --thread), the other a path here.')
    .argument('<source>')
    .argument('<target>')
    .addHelpText('after', '\nExamples:\n  boxoffice cp data.csv default:data.csv\n  boxoffice cp default:results ./results')
    .action(cp)

const cp = async (source: string, target: string, flags: ConnectionFlags & SandboxFlags): Promise<void> => {
  const [from, to] = [parseLocation(source), parseLocation(target)]
  if (from.kind === to.kind) {
    throw new UsageError(
      `one of the two must be in a sandbox (THREAD:PATH) and the other here; both are ${from.kind === 'local' ? 'here' : 'in a sandbox'}`,
    )
  }
  using client = connectTo(flags)
  const controller = new AbortController()
  const interrupted = () => controller.abort(new UsageError('interrupted; what was not complete was not written'))
  process.once('SIGINT', interrupted).once('SIGTERM', interrupted)
  try {
    const thread = threadOf(from) ?? threadOf(to) ?? flags.thread
    // Copying out needs a sandbox that is there; copying in may make one.
    const session = await client.session(thread, { mode: to.kind === 'sandbox' ? 'ensure' : 'get', profile: flags.profile })
    const copy = { files: session.files, from: from.path, to: to.path, signal: controller.signal }
    if (to.kind === 'sandbox') await (await import('../transfer/copy-in.ts')).copyIn(copy)
    else await (await import('../transfer/copy-out.ts')).copyOut(copy)
  } finally {
    process.removeListener('SIGINT', interrupted).removeListener('SIGTERM', interrupted)
  }
}

const threadOf = (location: Location): string | undefined => (location.kind === 'sandbox' ? location.thread : undefined)
