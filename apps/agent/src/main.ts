import { createAgent } from './agent.ts'
import { AgentConfig } from './config.ts'

/** Starts an agent from one JSON object in the environment; `boxoffice agent` is the way for people. */
const agent = createAgent(AgentConfig.parse(JSON.parse(process.env.BOXOFFICE_AGENT_CONFIG ?? '{}')))
const ready = await agent.start()
process.stdout.write(
  `${JSON.stringify({ event: 'ready', agent_url: ready.url, provider: ready.provider, isolation: ready.isolation, pid: process.pid })}\n`,
)

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  process.once(signal, () => {
    process.once(signal, () => process.exit(1))
    void agent.close().then(() => process.exit(0))
  })
}
