import type { ExposeOptions } from '@boxoffice/client'
import { Command, Option } from 'commander'
import { type ConnectionFlags, withConnection } from '../settings/connection.ts'
import { withSession } from '../settings/open-session.ts'
import { UsageError } from '../settings/usage-error.ts'
import { printJson, table } from '../terminal/output.ts'

type ExposeFlags = ConnectionFlags & {
  access: NonNullable<ExposeOptions['access']>
  host: NonNullable<ExposeOptions['host']>
  ttl?: string
}
type LinkFlags = ConnectionFlags & { path: string; ttl?: string }

export const portsCommand = (): Command =>
  new Command('ports')
    .summary('show ports of a sandbox in browsers')
    .addCommand(
      withConnection(new Command('expose'))
        .summary('give a port a host of its own, and print its URL')
        .addOption(new Option('--access <access>', 'who may see it').choices(['private', 'tenant', 'public']).default('private'))
        .addOption(
          new Option('--host <mode>', 'what the program reads as its host').choices(['localhost', 'preserve']).default('localhost'),
        )
        .option('--ttl <seconds>', 'for so long; default: until the session ends')
        .argument('<thread>', 'thread of the sandbox')
        .argument('<port>')
        .action((thread: string, port: string, flags: ExposeFlags) =>
          withSession(flags, thread, async ({ ports }) => {
            const { access, host } = flags
            const { url } = await ports.expose(readNumber(port, 'port'), { access, host, ttlSeconds: secondsOf(flags.ttl) })
            process.stdout.write(`${url}\n`)
          }),
        ),
    )
    .addCommand(
      withConnection(new Command('ls'))
        .summary('list the ports that have a host')
        .option('--json', 'one JSON object: {"ports":[…]}')
        .argument('<thread>', 'thread of the sandbox')
        .action((thread: string, flags: ConnectionFlags & { json?: boolean }) =>
          withSession(flags, thread, async (session) => {
            const ports = await session.ports.exposed()
            if (flags.json) return printJson({ ports })
            const rows = ports.map(({ port, access, expiresAt, url }) => [String(port), access, expiresAt?.toISOString() ?? '-', url])
            process.stdout.write(table(['PORT', 'ACCESS', 'EXPIRES', 'URL'], rows))
          }),
        ),
    )
    .addCommand(
      withConnection(new Command('rm'))
        .summary('take the host of a port away')
        .argument('<thread>', 'thread of the sandbox')
        .argument('<port>')
        .action((thread: string, port: string, flags: ConnectionFlags) =>
          withSession(flags, thread, ({ ports }) => ports.withdraw(readNumber(port, 'port'))),
        ),
    )
    .addCommand(
      withConnection(new Command('link'))
        .summary('print a link that lets one browser in, once')
        .option('--path <path>', 'where the browser goes then', '/')
        .option('--ttl <seconds>', 'how long it is good, 60 to 600; default: 60')
        .argument('<thread>', 'thread of the sandbox')
        .argument('<port>')
        .action((thread: string, port: string, flags: LinkFlags) =>
          withSession(flags, thread, async ({ ports }) => {
            const { url } = await ports.link(readNumber(port, 'port'), { path: flags.path, ttlSeconds: secondsOf(flags.ttl) })
            process.stdout.write(`${url}\n`)
          }),
        ),
    )

const secondsOf = (text: string | undefined): number | undefined => (text === undefined ? undefined : readNumber(text, '--ttl'))

const readNumber = (text: string, what: string): number => {
  if (!/^\d{1,9}$/.test(text)) throw new UsageError(`${what}: ${JSON.stringify(text)} is no number`)
  return Number(text)
}
