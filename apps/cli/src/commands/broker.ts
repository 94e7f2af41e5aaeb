import { join } from 'node:path'
import { Command } from 'commander'
import { BROKER_FLAGS, withFlags } from '../settings/flags.ts'
import { partSettings, sourcesOf } from '../settings/service.ts'
import { announceJson, announcePart, boxPorts } from '../terminal/ready.ts'
import { onHangup, serve } from '../terminal/serve.ts'
import { brokerCopyCommand } from './database/broker-copy.ts'
import { rotateKeys } from './database/rotate-keys.ts'

export const brokerCommand = (): Command =>
  withFlags(new Command('broker'), BROKER_FLAGS)
    .summary('run a broker alone')
    .description('Runs the control plane: who may use which sandbox.')
    .action(broker)
    // Options after `copy` are its own; it has some of the same name.
    .enablePositionalOptions()
    .addCommand(brokerCopyCommand())

const broker = async (flags: Record<string, unknown>): Promise<void> => {
  const [{ BrokerConfig, createBroker }, { AgentConfig }, { createLog }] = await Promise.all([
    import('@boxoffice/broker'),
    import('@boxoffice/agent'),
    import('../terminal/log.ts'),
  ])
  const settings = partSettings(BrokerConfig, [AgentConfig], sourcesOf(flags), 'broker')
  await serve(
    async (stack) => {
      const log = createLog(settings.logLevel).child({ part: 'broker' })
      const broker = createBroker({ ...settings, createApiKey: true }, { log })
      stack.defer(() => broker.close())
      const { url, apiKeyCreated, boxPort, boxRpcPort } = await broker.start()
      onHangup(stack, () => rotateKeys(broker, log))
      const key = apiKeyCreated === undefined ? {} : { api_key: apiKeyCreated }
      return { broker_url: url, ...key, ...boxPorts({ boxPort, boxRpcPort }) }
    },
    flags.json
      ? announceJson
      : (ready) => announcePart(ready, settings.enrollToken === undefined ? join(settings.dataDir, 'enroll-token') : undefined),
  )
}
