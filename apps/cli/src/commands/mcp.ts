import { ToolServers } from '@boxoffice/mcp'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { Command } from 'commander'
import { type ConnectionFlags, resolveConnection, withConnection } from '../settings/connection.ts'
import { type SandboxFlags, withThread } from '../settings/sandbox.ts'
import { failureLine } from '../terminal/failure.ts'

export const mcpCommand = (): Command =>
  withThread(withConnection(new Command('mcp')))
    .summary('serve a sandbox as MCP tools')
    .description(
      'An MCP server on standard input and output: commands and files of the sandbox of a thread, as tools. Ends with its input.',
    )
    .action(serve)

const serve = async (flags: ConnectionFlags & SandboxFlags): Promise<void> => {
  const { broker: brokerUrl, apiKey: credential } = resolveConnection(flags)
  const onerror = (error: Error): void => void process.stderr.write(`${failureLine(error)}\n`)
  const servers = new ToolServers({ brokerUrl, onerror })
  const { promise: stopped, resolve: stop } = Promise.withResolvers<void>()
  process.stdin.once('close', stop).once('end', stop)
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, stop)
  const served = serveStdio(() => servers.server({ credential, thread: flags.thread }), { onerror })
  await stopped
  // Commands that run are ended; their sandbox is told while this process comes to its end.
  await served.close()
  process.stdin.destroy()
}
