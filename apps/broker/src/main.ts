import { type BrokerConfig, configFromEnvironment, createBroker, StartError } from './index.ts'

try {
  const broker = createBroker(configFromEnvironment(process.env) as BrokerConfig)
  const { url, apiKeyCreated } = await broker.start()
  process.on('SIGHUP', () => void broker.rotateKeys())
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    process.once(signal, () => {
      process.once(signal, () => process.exit(1))
      void broker.close().then(() => process.exit(0))
    })
  const key = apiKeyCreated === undefined ? {} : { api_key: apiKeyCreated }
  process.stdout.write(`${JSON.stringify({ event: 'ready', broker_url: url, ...key, pid: process.pid })}\n`)
} catch (thrown) {
  process.stderr.write(`${thrown instanceof StartError ? thrown.message : (thrown as Error).stack}\n`)
  process.exit(1)
}
