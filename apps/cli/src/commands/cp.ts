import { Command } from 'commander'
import { type ConnectionFlags, connectTo, withConnection } from '../settings/connection.ts'
import { findSession, openSession } from '../settings/open-session.ts'
import { type SandboxFlags, withSandbox } from '../settings/sandbox.ts'
import { UsageError } from '../settings/usage-error.ts'
import { locate } from '../transfer/locate.ts'
import { parseLocation } from '../transfer/location.ts'

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
    const both = from.kind === 'local' ? 'here: a thread has a colon behind it, as in default:' : 'in a sandbox'
    throw new UsageError(`one of the two must be in a sandbox (THREAD:PATH) and the other here; both are ${both}`)
  }
  using client = connectTo(flags)
  const controller = new AbortController()
  const interrupted = () => controller.abort(new UsageError('interrupted; what was not complete was not written'))
  process.once('SIGINT', interrupted).once('SIGTERM', interrupted)
  const { signal } = controller
  try {
    if (to.kind === 'sandbox') {
      const { thread = flags.thread, path } = await locate(client, to)
      const { files } = await openSession(client, thread, flags.profile)
      await (await import('../transfer/copy-in.ts')).copyIn({ files, from: from.path, to: path, signal })
    } else if (from.kind === 'sandbox') {
      const { thread = flags.thread, path } = await locate(client, from)
      const { files } = await findSession(client, thread)
      await (await import('../transfer/copy-out.ts')).copyOut({ files, from: path, to: to.path, signal })
    }
  } finally {
    process.removeListener('SIGINT', interrupted).removeListener('SIGTERM', interrupted)
  }
}
