import { readFileSync } from 'node:fs'
import { Command } from 'commander'
import { onHangup, serve } from '../serve.ts'
import { defaultDataDir } from '../settings/data-dir.ts'
import { UP_FLAGS, withFlags } from '../settings/flags.ts'
import { sourcesOf, upSettings } from '../settings/service.ts'
import { announceJson, announceUp } from '../terminal/ready.ts'
import { rotateKeys } from './rotate-keys.ts'

export const upCommand = (): Command =>
  withFlags(new Command('up'), UP_FLAGS, '$XDG_STATE_HOME/boxoffice or ~/.local/state/boxoffice')
    .summary('run broker and agent on this machine')
    .description('Runs broker and agent together, for one machine. Sandboxes outlive it, unless --destroy-on-exit.')
    .action(up)

const up = async (flags: Record<string, unknown>): Promise<void> => {
  const [{ AgentConfig, createAgent, isLocal }, { BrokerConfig, createBroker }, { createLog }] = await Promise.all([
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
      const broker = createBroker({ ...settings.broker, enrollToken, createApiKey: true }, { log: brokerLog })
      stack.defer(() => broker.close())
      const { url: brokerUrl, localUrl, apiKeyCreated } = await broker.start()
      onHangup(stack, () => rotateKeys(broker, brokerLog))
      const { tls, host, publicUrl } = settings.broker
      const agent = createAgent(
        { ...settings.agent, brokerUrl: localUrl },
        {
          log: log.child({ part: 'agent' }),
          exposed: !isLocal(host, publicUrl),
          ...(tls === undefined ? {} : { brokerCertificate: readFileSync(tls.cert, 'utf8') }),
        },
      )
      stack.defer(() => agent.close())
      const { url: agentUrl, provider, isolation } = await agent.start()
      const key = apiKeyCreated === undefined ? {} : { api_key: apiKeyCreated }
      return { broker_url: brokerUrl, agent_url: agentUrl, ...key, provider, isolation }
    },
    flags.json
      ? announceJson
      : (ready) => announceUp(ready, { dataDir: settings.dataDir, isDefaultDataDir: settings.dataDir === defaultDataDir() }),
  )
}
