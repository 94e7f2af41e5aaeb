import { Command } from 'commander'
import { type ConnectionFlags, connectTo, withConnection } from '../settings/connection.ts'
import { type SandboxFlags, withSandbox } from '../settings/sandbox.ts'
import { printJson, table } from '../terminal/output.ts'
import { parseLocation } from '../transfer/location.ts'

type LsFlags = ConnectionFlags & SandboxFlags & { json?: boolean; recursive?: boolean; pattern?: string }

export const lsCommand = (): Command =>
  withSandbox(withConnection(new Command('ls')))
    .summary('list files of a sandbox')
    .option('--json', 'one JSON object: {"files":[…]}')
    .option('-r, --recursive', 'below directories too')
    .option('--pattern <glob>', 'only what matches, at any depth')
    .argument('[path]', 'PATH or THREAD:PATH', '.')
    .action(ls)

const ls = async (where: string, flags: LsFlags): Promise<void> => {
  const location = parseLocation(where)
  const { thread, path } = location.kind === 'sandbox' ? location : { thread: undefined, path: where }
  using client = connectTo(flags)
  const session = await client.session(thread ?? flags.thread, { mode: 'get' })
  const depth = flags.recursive || flags.pattern ? undefined : 1
  const files = await session.files.list(path || '.', { type: 'any', depth, pattern: flags.pattern })
  if (flags.json) return printJson({ files })
  const rows = files.map(({ type, mode, size, mtime, path }) => [
    mode,
    type === 'file' ? String(size) : '-',
    mtime.slice(0, 19).replace('T', ' '),
    type === 'directory' ? `${path}/` : path,
  ])
  process.stdout.write(table(['MODE', 'SIZE', 'MODIFIED', 'PATH'], rows))
}
