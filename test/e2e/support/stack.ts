import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Postgres } from '../../../apps/broker/test/support/postgres.ts'
import { startBalancer } from './balancer.ts'
import { agentEnv } from './places/agent-env.ts'
import { openDatabase } from './places/database.ts'
import { type DatabaseName, PLACE, type ProviderName } from './places/place.ts'
import { type Program, startProgram } from './program.ts'
import { type CuttableProxy, startProxy } from './proxy.ts'
import { reservePort } from './reserve-port.ts'

export type { DatabaseName, ProviderName } from './places/place.ts'

export const ENROLL_TOKEN = 'e2e-enroll-token-0123456789abcdefghijkl'
export const API_KEY = 'e2e-operator-key-0123456789abcdefghijklm'

/** How clients reach the dataplane: at the agent, or through the broker. */
export const MODES = ['direct', 'relay'] as const
export type Mode = (typeof MODES)[number]

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
  /** The server of their database, where it is a PostgreSQL of the stack's own. */
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
  /** Of the agent's environment. */
  agentVariables?: Record<string, string>
  brokerArgs?: string[]
  /** Default: that of the place. A PostgreSQL that is named here is a server of the stack's own, which a test may stop. */
  database?: DatabaseName
  /** Default: two on PostgreSQL, else one. */
  brokers?: number
  /** Default: several brokers have the URL of their load balancer. Without one each has its own, and the agent knows the first. */
  balanced?: boolean
}

export const startStack = async ({
  provider,
  mode = 'direct',
  config = {},
  agentArgs = [],
  agentVariables = {},
  brokerArgs = [],
  database,
  brokers: count = (database ?? PLACE.database) === 'postgres' ? 2 : 1,
  balanced = count > 1,
}: StackOptions): Promise<Stack> => {
  const directory = await mkdtemp(join(tmpdir(), 'bxo-'))
  const configFile = join(directory, 'config.json')
  const unlimited = { per_second: 100_000, burst: 100_000 }
  await writeFile(configFile, JSON.stringify({ rate_limits: { create_per_principal: unlimited, create_per_tenant: unlimited }, ...config }))
  await using parts = new AsyncDisposableStack()
  parts.defer(() => rm(directory, { recursive: true, force: true }))
  const brokerPorts = await Promise.all(Array.from({ length: count }, reservePort))
  const agentPort = await reservePort()
  const { url: databaseUrl, ownServer } = parts.use(await openDatabase(database))
  const balancer = balanced ? parts.use(await startBalancer(brokerPorts)) : undefined
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
  const shared = count > 1 || databaseUrl !== undefined
  const publicPort = count > 1 && !balanced && databaseUrl === undefined ? undefined : (front?.port ?? (shared ? brokerPort : undefined))
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
    const args = [
      'agent',
      ...['--broker-url', `http://127.0.0.1:${brokerPort}`, '--enroll-token', ENROLL_TOKEN, '--port', String(agentPort)],
      ...['--data-dir', directory, '--provider', provider, '--public-url', `http://127.0.0.1:${proxy.port}`, '--destroy-on-exit'],
      // Where clients are cut off, brokers are not.
      ...(mode === 'relay' ? ['--relay', 'always'] : ['--dataplane-url', `http://127.0.0.1:${agentPort}`]),
      ...agentArgs,
    ]
    agent = await startProgram(args, { ...agentEnv(provider), ...agentVariables })
  }
  parts.defer(async () => void (await agent?.stop()))
  await startBroker()
  // All of them are ended below also where one did not start.
  const others = await Promise.allSettled([startAgent(), ...[...brokerPorts.keys()].slice(1).map(startBroker)])
  for (const other of others) if (other.status === 'rejected') throw other.reason
  const owned = parts.move()
  return {
    provider,
    brokerUrl: `http://127.0.0.1:${brokerPort}`,
    brokerUrls: brokerPorts.map((port) => `http://127.0.0.1:${port}`),
    postgres: ownServer,
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
const databaseArgsOf = async (url: string | undefined, of: { directory: string; shared: boolean }): Promise<string[]> => {
  if (url === undefined) return of.shared ? ['--shared-data-dir'] : []
  const keyFile = join(of.directory, 'secret.key')
  await writeFile(keyFile, randomBytes(32).toString('base64url'), { mode: 0o600 })
  return ['--database-url', url, '--secret-key-file', keyFile]
}
