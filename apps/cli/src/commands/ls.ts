import { type Files, isCode } from '@boxoffice/client'
import { Command } from 'commander'
import { type ConnectionFlags, connectTo, withConnection } from '../settings/connection.ts'
import { findSession } from '../settings/open-session.ts'
import { type SandboxFlags, withThread } from '../settings/sandbox.ts'
import { UsageError } from '../settings/usage-error.ts'
import { printJson, table } from '../terminal/output.ts'
import { locate } from '../transfer/locate.ts'
import { parseLocation } from '../transfer/location.ts'

type LsFlags = ConnectionFlags & SandboxFlags & { json?: boolean; recursive?: boolean; pattern?: string }

export const lsCommand = (): Command =>
  withThread(withConnection(new Command('ls')))
    .summary('list files of a sandbox')
    .option('--json', 'one JSON object: {"files":[…]}')
    .option('-r, --recursive', 'below directories too')
    .option('--pattern <glob>', 'only what matches, at any depth')
    .argument('[path]', 'PATH or THREAD:PATH', '.')
    .action(ls)

const ls = async (where: string, flags: LsFlags): Promise<void> => {
  const location = parseLocation(where)
  using client = connectTo(flags)
  const { thread = flags.thread, path } =
    location.kind === 'sandbox' ? await locate(client, location) : { thread: flags.thread, path: location.path }
  const forgotten =
    location.kind === 'local' && where !== '.' ? ` (the files of thread ${JSON.stringify(where)}: \`boxoffice ls ${where}:\`)` : ''
  const { files: tree } = await findSession(client, thread, { hint: forgotten })
  const files = await list(tree, path || '.', flags).catch((error: unknown) => {
    if (forgotten === '' || !isCode(error, 'FILE_NOT_FOUND')) throw error
    throw new UsageError(`thread ${JSON.stringify(thread)} has no file ${JSON.stringify(path)}${forgotten}`)
  })
  if (flags.json) return printJson({ files })
  const rows = files.map(({ type, mode, size, mtime, path }) => [
    mode,
    type === 'file' ? String(size) : '-',
    mtime.slice(0, 19).replace('T', ' '),
    type === 'directory' ? `${path}/` : path,
  ])
  process.stdout.write(table(['MODE', 'SIZE', 'MODIFIED', 'PATH'], rows))
}

/** What is in a directory; a file alone is listed as itself. */
const list = async (files: Files, path: string, { recursive, pattern }: LsFlags) => {
  const depth = recursive || pattern ? undefined : 1
  try {
    return await files.list(path, { type: 'any', depth, pattern })
  } catch (error) {
    if (!isCode(error, 'NOT_A_DIRECTORY')) throw error
    return [await files.stat(path)]
  }
}
