import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Program, startProgram } from './program.ts'
import { type CuttableProxy, startProxy } from './proxy.ts'
import { reservePort } from './reserve-port.ts'

export type ProviderName = 'docker' | 'local'

export const ENROLL_TOKEN = 'e2e-enroll-token-0123456789abcdefghijkl'
export const API_KEY = 'e2e-operator-key-0123456789abcdefghijklm'

/** How clients reach the dataplane: at the agent, or through the broker. */
export const MODES = ['direct', 'relay'] as const
export type Mode = (typeof MODES)[number]

/** Broker and agent as two processes, the agent behind a hop that can be cut; through the relay the broker too. */
export type Stack = {
  provider: ProviderName
  brokerUrl: string
  brokerDataDir: string
  agentDataDir: string
  proxy: CuttableProxy
  broker: () => Program
  agent: () => Program
  startAgent(): Promise<void>
  startBroker(): Promise<void>
  cutConnections(): void
  [Symbol.asyncDispose](): Promise<void>
}

export type StackOptions = {
  provider: ProviderName
  mode?: Mode
  config?: Record<string, unknown>
  agentArgs?: string[]
  brokerArgs?: string[]
}

export const startStack = async ({
  provider,
  mode = 'direct',
  config = {},
  agentArgs = [],
  brokerArgs = [],
}: StackOptions): Promise<Stack> => {
  const directory = await mkdtemp(join(tmpdir(), 'bxo-'))
  const configFile = join(directory, 'config.json')
  const unlimited = { per_second: 100_000, burst: 100_000 }
  await writeFile(configFile, JSON.stringify({ rate_limits: { create_per_principal: unlimited, create_per_tenant: unlimited }, ...config }))
  const brokerPort = await reservePort()
  const agentPort = await reservePort()
  const proxy = await startProxy()
  proxy.setTarget(agentPort)
  // Clients that are relayed come to the broker by its public URL, and the broker to the agent by the agent's.
  const front = mode === 'relay' ? await startProxy() : undefined
  front?.setTarget(brokerPort)
  const brokerDataDir = join(directory, 'broker')
  const agentDataDir = join(directory, 'agent')
  let broker: Program
  let agent: Program
  const startBroker = async (): Promise<void> => {
    broker = await startProgram([
      'broker',
      ...[
        '--port',
        String(brokerPort),
        '--data-dir',
        directory,
        '--enroll-token',
        ENROLL_TOKEN,
        '--api-key',
        API_KEY,
        '--config',
        configFile,
      ],
      ...(front === undefined ? [] : ['--public-url', `http://127.0.0.1:${front.port}`]),
      ...brokerArgs,
    ])
  }
  const startAgent = async (): Promise<void> => {
    agent = await startProgram([
      'agent',
      ...['--broker-url', `http://127.0.0.1:${brokerPort}`, '--enroll-token', ENROLL_TOKEN, '--port', String(agentPort)],
      ...[
        '--data-dir',
        directory,
        '--provider',
        provider,
        '--public-url',
        `http://127.0.0.1:${proxy.port}`,
        '--destroy-on-exit',
        // Where clients are cut off, brokers are not.
        ...(mode === 'relay' ? ['--relay', 'always'] : ['--dataplane-url', `http://127.0.0.1:${agentPort}`]),
        ...agentArgs,
      ],
    ])
  }
  await startBroker()
  await startAgent()
  return {
    provider,
    brokerUrl: `http://127.0.0.1:${brokerPort}`,
    brokerDataDir,
    agentDataDir,
    proxy,
    broker: () => broker,
    agent: () => agent,
    startAgent,
    startBroker,
    cutConnections: () => {
      proxy.cut()
      front?.cut()
    },
    [Symbol.asyncDispose]: async () => {
      await agent.stop()
      await broker.stop()
      await proxy.close()
      await front?.close()
      await rm(directory, { recursive: true, force: true })
    },
  }
}
