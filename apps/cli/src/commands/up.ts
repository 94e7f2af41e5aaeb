import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Command } from 'commander'
import { defaultDataDir } from '../settings/data-dir.ts'
import { UP_FLAGS, withFlags } from '../settings/flags.ts'
import { sourcesOf, upSettings } from '../settings/service.ts'
import { announceJson, announceUp, boxPorts } from '../terminal/ready.ts'
import { onHangup, serve } from '../terminal/serve.ts'
import { rotateKeys } from './database/rotate-keys.ts'

export const upCommand = (): Command =>
  withFlags(new Command('up'), UP_FLAGS)
    .option('--until-stdin-ends', 'end when stdin does, for programs that start it')
    .summary('run broker and agent on this machine')
    .description('Runs broker and agent together, for one machine. Sandboxes outlive it, unless --destroy-on-exit.')
    .option('--box-stdio', 'speak the RPC of the Box surface on standard input and output; ends with its input')
    .action(up)

const up = async (flags: Record<string, unknown>): Promise<void> => {
  const [{ AgentConfig, createAgent, isLocal }, { BrokerConfig, createBroker, serveBoxStdio }, { createLog }] = await Promise.all([
    import('@boxoffice/agent'),
    import('@boxoffice/broker'),
    import('../terminal/log.ts'),
  ])
  const settings = upSettings(BrokerConfig, AgentConfig, sourcesOf(flags))
  const log = createLog(settings.broker.logLevel)
  const { enrollToken } = settings.agent

  await serve(
    async (stack) => {
      const brokerLog = log.child({ part: 'broker' })
      const broker = createBroker({ ...settings.broker, enrollToken, createApiKey: true }, { log: brokerLog, besideAgent: true })
      stack.defer(() => broker.close())
      const agentStarted = Promise.withResolvers<void>()
      const { url: brokerUrl, localUrl, apiKeyCreated, boxPort, boxRpcPort } = await broker.start({ agentStarted: agentStarted.promise })
      onHangup(stack, () => rotateKeys(broker, brokerLog))
      const { tls, host, publicUrl } = settings.broker
      const beside = {
        exposed: !isLocal(host, publicUrl),
        besideBroker: true,
        ...(tls === undefined ? {} : { brokerCertificate: readFileSync(tls.cert, 'utf8') }),
      }
      const agent = createAgent({ ...settings.agent, brokerUrl: localUrl }, { log: log.child({ part: 'agent' }), ...beside })
      stack.defer(() => agent.close())
      const { url: agentUrl, provider, isolation, reason } = await agent.start()
      const isWithoutEngine = settings.agent.provider === 'docker' && provider === null
      const mayFallBack = settings.broker.mcp.hostFallback ?? isLocal(host, publicUrl)
      if (mayFallBack && (isWithoutEngine || hasSandboxes(settings.mcpAgent))) {
        const mcpLog = log.child({ part: 'mcp-agent' })
        const mcpAgent = createAgent({ ...settings.mcpAgent, brokerUrl: localUrl }, { log: mcpLog, reserved: 'mcp', ...beside })
        stack.defer(() => mcpAgent.close())
        // Sandboxes do not need it, nor does the start.
        await mcpAgent.start().catch((err: unknown) => mcpLog.warn({ err }, 'MCP servers have no agent of their own'))
      }
      agentStarted.resolve()
      const key = apiKeyCreated === undefined ? {} : { api_key: apiKeyCreated }
      if (flags.boxStdio) serveParent((line) => broker.boxRpc(line), serveBoxStdio)
      return {
        broker_url: brokerUrl,
        agent_url: agentUrl,
        ...key,
        provider,
        isolation,
        ...(reason === null ? {} : { reason }),
        ...boxPorts({ boxPort, boxRpcPort }),
      }
    },
    flags.boxStdio
      ? (ready) => log.info(ready, 'ready') // standard output is the RPC's
      : flags.json
        ? announceJson
        : (ready) => announceUp(ready, { dataDir: settings.dataDir, isDefaultDataDir: settings.dataDir === defaultDataDir() }),
    { untilStdinEnds: flags.untilStdinEnds === true, farewell: flags.json || flags.boxStdio ? undefined : farewell(settings.agent) },
  )
}

/** An earlier run was killed before it could end them. */
const hasSandboxes = ({ dataDir }: { dataDir: string }): boolean => {
  const path = join(dataDir, 'sandboxes')
  return existsSync(path) && readdirSync(path).length > 0
}

const farewell = ({ destroyOnExit }: { destroyOnExit: boolean }): string =>
  destroyOnExit ? 'Stopping: all sandboxes end.' : 'Stopping: sandboxes stay, and the next start finds them again.'

/** The program that started this one speaks the RPC with it, and ends it by closing its end [2-45]. */
const serveParent = (answer: Parameters<ServeStdio>[2], serveStdio: ServeStdio): void => {
  void serveStdio(process.stdin, process.stdout, answer).then(() => process.kill(process.pid, 'SIGTERM'))
}
type ServeStdio = typeof import('@boxoffice/broker').serveBoxStdio
