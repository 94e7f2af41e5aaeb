import { Command } from 'commander'
import { AGENT_FLAGS, withFlags } from '../settings/flags.ts'
import { logLevelOf, partSettings, sourcesOf } from '../settings/service.ts'
import { announceJson, announcePart } from '../terminal/ready.ts'
import { serve } from '../terminal/serve.ts'

export const agentCommand = (): Command =>
  withFlags(new Command('agent'), AGENT_FLAGS)
    .summary('run an agent alone')
    .description('Runs the dataplane of one container host: makes sandboxes and serves what runs in them.')
    .action(agent)

const agent = async (flags: Record<string, unknown>): Promise<void> => {
  const [{ AgentConfig, createAgent }, { BrokerConfig }, { createLog }] = await Promise.all([
    import('@boxoffice/agent'),
    import('@boxoffice/broker'),
    import('../terminal/log.ts'),
  ])
  const sources = sourcesOf(flags)
  const settings = partSettings(AgentConfig, [BrokerConfig], sources, 'agent')
  await serve(
    async (stack, fail) => {
      const agent = createAgent(settings, { log: createLog(logLevelOf(sources)).child({ part: 'agent' }), onRefused: fail })
      stack.defer(() => agent.close())
      const { url, provider, isolation, reason } = await agent.start()
      return { agent_url: url, provider, isolation, ...(reason === null ? {} : { reason }) }
    },
    flags.json ? announceJson : announcePart,
  )
}
