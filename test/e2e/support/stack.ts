import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Postgres, startPostgres } from '../../../apps/broker/test/support/postgres.ts'
import { startBalancer } from './balancer.ts'
import { type Program, startProgram } from './program.ts'
import { type CuttableProxy, startProxy } from './proxy.ts'
import { reservePort } from './reserve-port.ts'

export type ProviderName = 'docker' | 'local'

export const ENROLL_TOKEN = 'e2e-enroll-token-0123456789abcdefghijkl'
export const API_KEY = 'e2e-operator-key-0123456789abcdefghijklm'

/** How clients reach the dataplane: at the agent, or through the broker. */
export const MODES = ['direct', 'relay'] as const
export type Mode = (typeof MODES)[number]

export type DatabaseName = 'sqlite' | 'postgres'

/** What stacks are started on that do not say it: `BOXOFFICE_TEST_DATABASE=postgres` runs their suites over two brokers. */
const DATABASE: DatabaseName = process.env.BOXOFFICE_TEST_DATABASE === 'postgres' ? 'postgres' : 'sqlite'

/**
 * Broker and agent as two processes, the agent behind a hop that can be cut; through the relay the broker too. Several brokers are behind
 * a load balancer.
 */
export type Stack = {
  provider: ProviderName
  /** Of several brokers that of their load balancer. */
  brokerUrl: string
  /** Of each broker. */
  brokerUrls: string[]
  /** The server of their database, where it is PostgreSQL. */
  postgres: Postgres | undefined
  /** Of the brokers' database there. */
  databaseUrl: string | undefined
  brokerDataDir: string
  agentDataDir: string
  proxy: CuttableProxy
  /** By default the first one. */
  broker: (index?: number) => Program
  agent: () => Program
  startAgent(): Promise<void>
  startBroker(index?: number): Promise<void>
  cutConnections(): void
  [Symbol.asyncDispose](): Promise<void>
}

export type StackOptions = {
  provider: ProviderName
  mode?: Mode
  config?: Record<string, unknown>
  agentArgs?: string[]
  brokerArgs?: string[]
  database?: DatabaseName
  /** Default: two on PostgreSQL, else one. */
  brokers?: number
}

export const startStack = async ({
  provider,
  mode = 'direct',
  config = {},
  agentArgs = [],
  brokerArgs = [],
  database = DATABASE,
  brokers: count = database === 'postgres' ? 2 : 1,
}: StackOptions): Promise<Stack> => {
  const directory = await mkdtemp(join(tmpdir(), 'bxo-'))
  const configFile = join(directory, 'config.json')
  const unlimited = { per_second: 100_000, burst: 100_000 }
  await writeFile(configFile, JSON.stringify({ rate_limits: { create_per_principal: unlimited, create_per_tenant: unlimited }, ...config }))
  await using parts = new AsyncDisposableStack()
  parts.defer(() => rm(directory, { recursive: true, force: true }))
  const brokerPorts = await Promise.all(Array.from({ length: count }, reservePort))
  const agentPort = await reservePort()
  const postgres = database === 'postgres' ? parts.use(await startPostgres()) : undefined
  const balancer = count > 1 ? parts.use(await startBalancer(brokerPorts)) : undefined
  const brokerPort = balancer?.port ?? brokerPorts[0] ?? 0
  const proxy = await startProxy()
  parts.defer(() => proxy.close())
  proxy.setTarget(agentPort)
  // Clients that are relayed come to the broker by its public URL, and the broker to the agent by the agent's.
  const front = mode === 'relay' ? await startProxy() : undefined
  parts.defer(() => front?.close())
  front?.setTarget(brokerPort)
  const brokerDataDir = join(directory, 'broker')
  const agentDataDir = join(directory, 'agent')
  const shared = count > 1 || postgres !== undefined
  const publicPort = front?.port ?? (shared ? brokerPort : undefined)
  const databaseUrl = await postgres?.database()
  const databaseArgs = await databaseArgsOf(databaseUrl, { directory, shared })
  const brokers: Program[] = []
  let agent: Program | undefined
  const startBroker = async (index = 0): Promise<void> => {
    brokers[index] = await startProgram([
      'broker',
      ...['--port', String(brokerPorts[index]), '--data-dir', directory, '--enroll-token', ENROLL_TOKEN, '--api-key', API_KEY],
      ...['--config', configFile, ...databaseArgs],
      ...(publicPort === undefined ? [] : ['--public-url', `http://127.0.0.1:${publicPort}`]),
      ...brokerArgs,
    ])
  }
  parts.defer(async () => {
    for (const broker of brokers) await broker.stop()
  })
  const started = <T>(program: T | undefined): T => {
    if (program === undefined) throw new Error('it has not been started')
    return program
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
  parts.defer(async () => void (await agent?.stop()))
  for (const index of brokerPorts.keys()) await startBroker(index)
  await startAgent()
  const owned = parts.move()
  return {
    provider,
    brokerUrl: `http://127.0.0.1:${brokerPort}`,
    brokerUrls: brokerPorts.map((port) => `http://127.0.0.1:${port}`),
    postgres,
    databaseUrl,
    brokerDataDir,
    agentDataDir,
    proxy,
    broker: (index = 0) => started(brokers[index]),
    agent: () => started(agent),
    startAgent,
    startBroker,
    cutConnections: () => {
      proxy.cut()
      front?.cut()
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

/** What brokers are told of their database. Those of PostgreSQL share a key, and no file beside it. */
const databaseArgsOf = async (databaseUrl: string | undefined, of: { directory: string; shared: boolean }): Promise<string[]> => {
  if (databaseUrl === undefined) return of.shared ? ['--shared-data-dir'] : []
  const keyFile = join(of.directory, 'secret.key')
  await writeFile(keyFile, randomBytes(32).toString('base64url'), { mode: 0o600 })
  return ['--database-url', databaseUrl, '--secret-key-file', keyFile]
}
