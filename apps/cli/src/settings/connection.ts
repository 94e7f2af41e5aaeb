import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Client, type ConnectOptions, connect } from '@boxoffice/client'
import { isLoopback } from '@boxoffice/kit/is-loopback'
import type { Command } from 'commander'
import { z } from 'zod'
import { readConfigFile } from './config-file.ts'
import { defaultDataDir, partDirectory } from './data-dir.ts'
import { UsageError } from './usage-error.ts'

export const DEFAULT_BROKER_URL = 'http://127.0.0.1:7070'

export type ConnectionFlags = { broker?: string; apiKey?: string; config?: string }

/** What the commands that talk to a broker have in common. */
export const withConnection = (command: Command): Command =>
  command
    .option('--broker <url>', `the broker (BOXOFFICE_URL; default ${DEFAULT_BROKER_URL})`)
    .option('--api-key <key>', 'a key for it (BOXOFFICE_API_KEY; default: the one that `boxoffice up` made on this machine)')
    .option('--config <file>', 'a JSON file with "broker" and "api_key" (BOXOFFICE_CONFIG)')

const Settings = z.object({
  broker: z.url({ protocol: /^https?$/, error: 'must be an http(s) URL, e.g. http://127.0.0.1:7070' }),
  apiKey: z.string().min(1, 'must not be empty'),
})

export type Connection = z.infer<typeof Settings>

/** Flags over environment over file over what `boxoffice up` left on this machine. */
export const resolveConnection = (flags: ConnectionFlags, env: NodeJS.ProcessEnv = process.env): Connection => {
  const path = flags.config ?? env.BOXOFFICE_CONFIG
  const file = path === undefined ? {} : readConfigFile(path)
  const broker = flags.broker ?? env.BOXOFFICE_URL ?? file.broker ?? DEFAULT_BROKER_URL
  const url = Settings.shape.broker.safeParse(broker)
  if (!url.success)
    throw new UsageError(
      `broker (--broker, BOXOFFICE_URL): ${url.error.issues[0]?.message}, not ${JSON.stringify(broker)}${withScheme(broker)}`,
    )
  const apiKey = flags.apiKey ?? env.BOXOFFICE_API_KEY ?? file.apiKey ?? localApiKey(broker, env)
  if (apiKey === undefined) {
    throw new UsageError(`no API key for ${url.data}: use --api-key or BOXOFFICE_API_KEY, or start \`boxoffice up\` on this machine`)
  }
  const key = Settings.shape.apiKey.safeParse(apiKey)
  if (key.success) return { broker: url.data, apiKey: key.data }
  throw new UsageError(`api_key (--api-key, BOXOFFICE_API_KEY): ${key.error.issues[0]?.message}`)
}

/** `localhost:7070` is a URL, though of the scheme `localhost`. */
const withScheme = (broker: unknown): string =>
  typeof broker === 'string' && !broker.includes('://') && URL.canParse(`http://${broker}`) ? `; did you mean http://${broker}?` : ''

/** `network`: in the place of the runtime's own. */
export const connectTo = (flags: ConnectionFlags, network: Pick<ConnectOptions, 'fetch' | 'WebSocket'> = {}): Client => {
  const { broker, apiKey } = resolveConnection(flags)
  return connect(broker, { apiKey, ...network })
}

/** The key of a broker on this machine, as `up` left it; only ever sent to this machine. */
const localApiKey = (broker: unknown, env: NodeJS.ProcessEnv): string | undefined => {
  const host = typeof broker === 'string' && URL.canParse(broker) ? new URL(broker).hostname : ''
  if (!isLoopback(host)) return undefined
  try {
    return readFileSync(apiKeyFile(env.BOXOFFICE_DATA_DIR ?? defaultDataDir(env)), 'utf8').trim()
  } catch {
    return undefined
  }
}

const apiKeyFile = (dataDir: string): string => join(partDirectory(dataDir, 'broker'), 'api-key')
