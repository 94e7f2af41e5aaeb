import { randomBytes } from 'node:crypto'
import { mkdirSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { z } from 'zod'
import { environmentName, kebabCase, readConfigFile } from './config-file.ts'
import { defaultDataDir, partDirectory } from './data-dir.ts'
import { type Renames, refuseUnknown, resolveSettings, type Sources } from './resolve.ts'
import { UsageError } from './usage-error.ts'

/** What `up` calls the agent's settings where the broker has one of the same name. */
const UP_RENAMES: Renames = { host: 'agentHost', port: 'agentPort', publicUrl: 'agentPublicUrl' }

/** Names that a configuration file may hold for the client commands, so that one file serves all. */
const FOR_CLIENTS = ['broker', 'apiKey']

/** Given once for broker and agent; the broker's schema has them as one object. */
const TLS = ['tlsCert', 'tlsKey'] as const

const LogLevel = z.enum(['silent', 'error', 'warn', 'info', 'debug', 'trace'])

export const sourcesOf = (flags: Record<string, unknown>, env: NodeJS.ProcessEnv = process.env): Sources => {
  const path = flags.config ?? env.BOXOFFICE_CONFIG
  return { flags, env, file: typeof path === 'string' && path !== '' ? readConfigFile(path) : {} }
}

/** Settings of one part that runs alone. `others` are the parts that may have settings in the same file. */
export const partSettings = <S extends z.ZodObject>(
  schema: S,
  others: readonly z.ZodObject[],
  sources: Sources,
  part: 'broker' | 'agent',
): z.output<S> => {
  refuseUnknown(sources.file, knownNames([schema, ...others]))
  const settings: Record<string, unknown> = { ...resolveSettings(schema.shape, sources), ...('tls' in schema.shape ? tlsOf(sources) : {}) }
  return checkWhole(schema, { ...settings, dataDir: partDirectory(dataDirOf(settings.dataDir), part) })
}

/** Settings of broker and agent in one process: each has a directory of its own below the one data directory. */
export const upSettings = <B extends z.ZodObject, A extends z.ZodObject>(broker: B, agent: A, sources: Sources) => {
  refuseUnknown(sources.file, knownNames([broker, agent]))
  const ofBroker: Record<string, unknown> = { ...resolveSettings(broker.shape, sources), ...tlsOf(sources) }
  const ofAgent = resolveSettings(agent.shape, sources, UP_RENAMES)
  const dataDir = dataDirOf(ofBroker.dataDir)
  const agentSettings = {
    ...(ofBroker.host === undefined ? {} : { host: ofBroker.host }),
    ...ofAgent,
    dataDir: partDirectory(dataDir, 'agent'),
    // The broker's keys are beside it.
    blockedHostPaths: [dataDir, ...((ofAgent.blockedHostPaths as string[] | undefined) ?? [])],
    // What `up` itself fills in when the broker listens.
    brokerUrl: 'http://127.0.0.1',
    enrollToken: ofBroker.enrollToken ?? randomBytes(32).toString('base64url'),
  }
  return {
    dataDir,
    broker: checkWhole(broker, { ...ofBroker, dataDir: partDirectory(dataDir, 'broker') }),
    agent: checkWhole(agent, agentSettings),
    /** Of the agent that runs MCP servers while no engine answers. Its sandboxes end with it. */
    mcpAgent: checkWhole(agent, {
      ...Object.fromEntries(Object.entries(agentSettings).filter(([name]) => !LISTENING.includes(name))),
      ...{ dataDir: join(dataDir, 'agent-mcp'), provider: 'local', port: 0, destroyOnExit: true },
    }),
  }
}

/** What only the first agent has: it is what clients are told of. */
const LISTENING = 'host port publicUrl tlsCert tlsKey dataplaneListen dataplaneUrl controlListen controlUrl insecureNetwork relay'.split(
  ' ',
)

/** What no single setting shows: one that is missing, two that do not go together. */
const checkWhole = <S extends z.ZodObject>(schema: S, settings: Record<string, unknown>): z.output<S> => {
  const checked = schema.safeParse(settings)
  if (checked.success) return checked.data
  const issue = checked.error.issues[0]
  const key = issue?.path[0]
  if (typeof key !== 'string') throw new UsageError(issue?.message ?? 'the settings are not valid')
  const missing = settings[key] === undefined
  throw new UsageError(`--${kebabCase(key)} (${environmentName(key)}): ${missing ? 'is required' : issue?.message}`)
}

const tlsOf = (sources: Sources): { tls?: { cert: string; key: string } } => {
  const { tlsCert: cert, tlsKey: key } = resolveSettings({ tlsCert: z.string(), tlsKey: z.string() }, sources)
  if (cert === undefined && key === undefined) return {}
  if (typeof cert === 'string' && typeof key === 'string') return { tls: { cert, key } }
  throw new UsageError('--tls-cert and --tls-key belong together')
}

export const logLevelOf = (sources: Sources): z.output<typeof LogLevel> =>
  LogLevel.default('info').parse(resolveSettings({ logLevel: LogLevel }, sources).logLevel)

const knownNames = (schemas: readonly z.ZodObject[]): string[] => [
  ...schemas.flatMap((schema) => Object.keys(schema.shape)),
  ...Object.values(UP_RENAMES),
  ...FOR_CLIENTS,
  'logLevel',
  ...TLS,
]

/** Made here, private to its owner, so that a bad place is told before anything starts. */
const dataDirOf = (given: unknown): string => {
  const path = typeof given === 'string' ? resolve(given) : defaultDataDir()
  try {
    makeDirectory(path)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const why = code === 'EEXIST' || code === 'ENOTDIR' ? 'is below or is itself a file, not a directory' : `cannot be made (${code})`
    throw new UsageError(`data_dir (--data-dir, BOXOFFICE_DATA_DIR): ${path} ${why}; choose another`)
  }
  return path
}

/** With its parents. Not by Node's own `recursive`, which never returns where making fails with ENOENT, as below /proc. */
const makeDirectory = (path: string): void => {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return
  if (dirname(path) !== path) makeDirectory(dirname(path))
  mkdirSync(path, { mode: 0o700 })
}
