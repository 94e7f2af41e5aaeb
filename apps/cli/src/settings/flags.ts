import { AgentConfig } from '@boxoffice/agent/config'
import { BrokerConfig } from '@boxoffice/broker/config'
import { type Command, Option } from 'commander'
import type { z } from 'zod'
import { camelCase, environmentName, kebabCase } from './config-file.ts'
import { defaultText } from './default-text.ts'
import { FORMER_NAMES } from './resolve.ts'

/** A flag as commander reads it, and what it says of the setting. Its environment variable follows from its name. */
export type Flag = { readonly flags: string; readonly setting: string; readonly description: string }

/** `dataDir` of `--data-dir <dir>`. */
export const nameOf = (flags: string): string => camelCase(flags.replace(/^--/, '').replace(/ .*$/, ''))

/** `setting`: the schema's name for it, where the flag has another. */
const flagOf = (config: z.ZodObject, flags: string, setting = nameOf(flags)): Flag => {
  const schema = config.shape[setting] as z.ZodType
  const standard = defaultText(schema)
  return { flags, setting, description: `${schema.description}${standard === undefined ? '' : `; default ${standard}`}` }
}

const broker = (flags: string): Flag => flagOf(BrokerConfig, flags)
const agent = (flags: string, setting?: string): Flag => flagOf(AgentConfig, flags, setting)

/** The broker's schema has the two as one object. */
const TLS_FLAGS: readonly Flag[] = [agent('--tls-cert <file>'), agent('--tls-key <file>')]

/** Of the commands, too, that work on a PostgreSQL database. */
export const DATABASE_FLAGS: readonly Flag[] = [broker('--database-url <url>'), broker('--secret-key-file <file>')]

export const BROKER_FLAGS: readonly Flag[] = [
  broker('--host <address>'),
  broker('--port <port>'),
  broker('--public-url <url>'),
  broker('--internal-url <url>'),
  broker('--enroll-token <token>'),
  broker('--api-key <key>'),
  broker('--token-ttl <seconds>'),
  broker('--max-sessions <count>'),
  broker('--agent-lost-after <seconds>'),
  broker('--preview-domain <domain>'),
  broker('--cors-origins <origins>'),
  broker('--trusted-proxies <addresses>'),
  broker('--max-connections <count>'),
  ...TLS_FLAGS,
  broker('--box-port <port>'),
  broker('--box-rpc-port <port>'),
  broker('--compat <list>'),
  broker('--features <list>'),
  broker('--rate-limits <json>'),
  broker('--authorizer <name>'),
  broker('--authorizer-url <url>'),
  broker('--authorizer-secret <secret>'),
  broker('--authorizer-cache <seconds>'),
  broker('--oidc-issuer <issuer>'),
  broker('--oidc-jwks-url <url>'),
  broker('--oidc-audience <audiences>'),
  broker('--oidc-algorithms <names>'),
  broker('--oidc-tenant <tenant>'),
  broker('--oidc-claims <json>'),
  broker('--allow-private-urls'),
  broker('--relay-splice <file>'),
  broker('--fast-io <json>'),
  ...DATABASE_FLAGS,
  broker('--migrate <when>'),
  broker('--shared-data-dir'),
  broker('--log-level <level>'),
]

const PROVIDER_FLAGS: readonly Flag[] = [
  agent('--provider <name>'),
  agent('--isolation <kind>'),
  agent('--allow-unsafe-local'),
  agent('--docker-host <url>'),
  agent('--default-image <image>'),
  agent('--allowed-host-mount-roots <dirs>'),
  agent('--default-host-workspace <dir>'),
  agent('--blocked-host-paths <paths>'),
  agent('--supervisor-path <file>'),
  agent('--relay <when>'),
  agent('--dataplane-listen <unix:/path>'),
  agent('--dataplane-url <url>'),
  agent('--control-listen <host:port>'),
  agent('--control-url <url>'),
  agent('--insecure-network'),
  agent('--dataplane-rates <json>'),
  agent('--destroy-on-exit'),
]

export const AGENT_FLAGS: readonly Flag[] = [
  agent('--broker-url <url>'),
  agent('--enroll-token <token>'),
  agent('--host <address>'),
  agent('--port <port>'),
  agent('--public-url <url>'),
  agent('--preview-domain <domain>'),
  ...TLS_FLAGS,
  agent('--cors-origins <origins>'),
  agent('--trusted-proxies <addresses>'),
  agent('--max-connections <count>'),
  ...PROVIDER_FLAGS,
  agent('--fast-io <json>'),
  broker('--log-level <level>'),
]

export const UP_FLAGS: readonly Flag[] = [
  ...BROKER_FLAGS,
  { flags: '--agent-host <address>', setting: 'host', description: "address that the agent listens on; default: the broker's" },
  agent('--agent-port <port>', 'port'),
  agent('--agent-public-url <url>', 'publicUrl'),
  ...PROVIDER_FLAGS,
]

/** Of all three commands. */
export const COMMON_FLAGS = [
  {
    flags: '--data-dir <dir>',
    description: 'directory that holds everything that persists; default $XDG_STATE_HOME/boxoffice or ~/.local/state/boxoffice',
  },
  { flags: '--config <file>', description: 'JSON file with any of these settings' },
] as const

export const withFlags = (command: Command, flags: readonly Flag[]): Command => {
  for (const { flags: name, description } of [...flags, ...COMMON_FLAGS]) {
    command.option(name, `${description} (${environmentName(nameOf(name))})`)
    for (const former of FORMER_NAMES[nameOf(name)] ?? []) command.addOption(new Option(`--${kebabCase(former)} <value>`).hideHelp())
  }
  return command.option('--json', 'print one line of JSON when it is ready')
}
