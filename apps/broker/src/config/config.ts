import { isLoopback } from '@boxoffice/kit/is-loopback'
import { withoutSlash } from '@boxoffice/kit/without-slash'
import { FastIo, Rate } from '@boxoffice/node-http'
import { BUILT_IN_PROFILES, describeIssue, EgressLists, fromUnknown, PreviewDomain, Profile } from '@boxoffice/protocol'
import { z } from 'zod'
import { resolveLists } from '../domain/egress-lists.ts'
import { StartError } from '../host/start-error.ts'
import { literalAddress, permits, type TargetPolicy } from '../outbound/targets.ts'
import { BoxSettings } from './box.ts'
import { configuredServers } from './configured-servers.ts'
import { allowedImages, ImageSettings, type MayNameImage } from './images.ts'
import { KubernetesAgents } from './kubernetes-agents.ts'
import { McpServerConfig, McpSettings } from './mcp-server.ts'
import { OIDC_ALGORITHMS } from './oidc.ts'
import { DatabaseUrl, requireShared } from './shared-database.ts'

/** Dialled by the broker itself, always as it stands here. */
const outboundUrl = z
  .url({ protocol: /^https?$/, error: 'must be an http:// or https:// URL' })
  .refine((url) => !URL.canParse(url) || new URL(url).username === '', 'must not hold a user name or password')

/** `full`: the full protocol beside the MVP [4-175]. Also as a text, `full=false`, for a flag or a variable. */
const Features = z.preprocess(switches, z.strictObject({ full: z.boolean('must be true or false').default(true) }))

/** On or off: `true`, or `{ "enabled": true }`. */
const surface = (byDefault: boolean) =>
  z.preprocess(
    (value) => (typeof value === 'object' && value !== null && 'enabled' in value ? value.enabled : value),
    z.boolean('must be true or false').default(byDefault),
  )

/** Surfaces of other systems, each below `/compat/<name>` while it is on. Also as a text, `sbs=true`. */
const Compat = z.preprocess(
  switches,
  z.strictObject({
    sbs: surface(false),
    box: surface(true),
    e2b: surface(true),
    langsmith: surface(true),
    n8n: surface(true),
  }),
)

function switches(value: unknown): unknown {
  if (typeof value !== 'string') return value
  return Object.fromEntries(
    value
      .split(',')
      .map((part) => part.split('='))
      .map(([name = '', on]) => [name.trim(), on === 'true' ? true : on === 'false' ? false : on]),
  )
}

/**
 * Settings of the broker. Durations in seconds unless the name says otherwise. The descriptions are what `--help` and
 * docs/configuration.md say; a default that the schema has is added to them there.
 */
export const BrokerConfig = z.object({
  host: z.string().min(1).default('127.0.0.1').describe('address to listen on'),
  port: z.coerce.number().int().min(0).max(65535).default(7070).describe('port to listen on; 0 chooses a free one'),
  /** Made with mode 0700 when missing. */
  dataDir: z.string().min(1).describe('directory that holds everything that persists: database, signing keys, lock'),
  publicUrl: z
    .url({ protocol: /^https?$/, error: 'must be an http:// or https:// URL' })
    .transform(withoutSlash)
    .optional()
    .describe('URL at which clients reach the broker, and the issuer of its tokens; default: where it listens'),
  internalUrl: z
    .url({ protocol: /^https?$/, error: 'must be an http:// or https:// URL' })
    .transform(withoutSlash)
    .optional()
    .describe('URL at which the other brokers of the database reach this one; default: where it listens, without TLS and at one address'),
  enrollToken: z
    .string()
    .min(8, 'must have at least 8 characters')
    .optional()
    .describe('token that agents show to register, at least 8 characters; default: made at the first start and kept'),
  /** [C-50] */
  kubernetesAgents: KubernetesAgents.optional().describe(
    'agents that enroll by the token of their Kubernetes service account, as JSON; default: none',
  ),
  apiKey: z
    .string()
    .min(32, 'must have at least 32 characters; generate one with: openssl rand -base64 33')
    .optional()
    .describe('API key of an operator, at least 32 characters; default: made at the first start, on loopback only'),
  /** Makes an operator key at the first start if `apiKey` is not set, and gives it back at each start. Loopback only. */
  createApiKey: z.boolean().default(false),
  tokenTtl: z.coerce.number().int().min(60).max(3600).default(600).describe('lifetime of session tokens in seconds, 60 to 3600'),
  keyRotation: z.coerce
    .number()
    .int()
    .min(3600)
    .default(30 * 24 * 3600)
    .describe('age in seconds at which the signing key is replaced'),
  profiles: z
    .array(z.strictObject(Profile.shape))
    .default([])
    .describe('profiles beside the built-in ones; one of the same name replaces the built-in one'),
  egressLists: EgressLists.default({}).describe(
    'lists of hosts that policies of egress name with an @, as JSON, e.g. {"packages":["packages.example.com"]}',
  ),
  images: ImageSettings.prefault({}).describe('images that clients may name'),
  databaseUrl: DatabaseUrl.optional().describe(
    'PostgreSQL database that several brokers share, postgres://USER:PASSWORD@HOST:PORT/DATABASE; default: a file of the data directory',
  ),
  secretKeyFile: z
    .string()
    .min(1)
    .optional()
    .describe(
      'file of the keys that secrets of the database are sealed under, the same for all its brokers; default: with PostgreSQL none, else secret-keys in the data directory',
    ),
  migrate: z
    .enum(['start', 'never'])
    .default('start')
    .describe('when the broker brings the schema of a PostgreSQL database up to date: start, or never (boxoffice migrate does)'),
  sharedDataDir: z.boolean().default(false).describe('allows several brokers to use one data directory'),
  features: Features.prefault({}).describe('full=false serves the MVP of the protocol alone; default full=true'),
  compat: Compat.prefault({}).describe(
    'surfaces of other systems, e.g. sbs=true,box=false; default box=true,e2b=true,langsmith=true,n8n=true,sbs=false',
  ),
  stepTimeout: z.coerce.number().min(1).max(86_400).default(30).describe('seconds that a step of the steps API may take at most'),
  box: BoxSettings.prefault({}).describe('settings of the Box surface'),
  boxPort: z.coerce
    .number()
    .int()
    .min(0)
    .max(65535)
    .optional()
    .describe('port that serves the Box surface at its root, 0 chooses a free one; default: served below /compat/box only'),
  boxRpcPort: z.coerce
    .number()
    .int()
    .min(0)
    .max(65535)
    .optional()
    .describe('port that serves the Box surface with the RPC at its root, 0 chooses a free one; default: none'),
  mcpServers: z.array(McpServerConfig).default([]).describe('MCP servers that the broker runs in sandboxes from its start'),
  mcp: McpSettings.prefault({}).describe('settings of all MCP servers'),
  previewDomain: PreviewDomain.optional().describe(
    'domain below which each exposed port has a host, by https; default: localhost, for who is on the same machine',
  ),
  corsOrigins: z.array(z.string()).default([]).describe('web origins that may call, separated by commas'),
  trustedProxies: z.array(z.string()).default([]).describe('addresses whose X-Forwarded-For counts, separated by commas'),
  maxConnections: z.coerce.number().int().min(16).default(8192).describe('connections of each listener at most'),
  tls: z.object({ cert: z.string(), key: z.string() }).optional(),
  relaySplice: z
    .union([z.literal(false), z.literal('false').transform(() => false as const), z.string().min(1)], { error: 'must be a path or false' })
    .optional()
    .describe('supervisor binary that splices large uploads to agents past the broker, or false; default: the one that ships'),
  fastIo: FastIo.prefault({}).describe('switches of what is there only for speed, as JSON, e.g. {"gc_hint":false}; default: all on'),
  maxSessions: z.coerce.number().int().min(1).default(1000).describe('live sessions of a tenant at most'),
  rateLimits: z
    .strictObject({
      createPerPrincipal: Rate.default({ perSecond: 50, burst: 200 }).describe('new sessions of a principal'),
      createPerTenant: Rate.default({ perSecond: 200, burst: 400 }).describe('new sessions of a tenant'),
      authFailures: Rate.default({ perSecond: 10, burst: 50 }).describe('refused credentials of an address'),
      controlPerPrincipal: Rate.optional().describe('authenticated requests of a principal; default: not limited'),
      controlPerTenant: Rate.optional().describe('authenticated requests of a tenant; default: not limited'),
    })
    .prefault({})
    .describe('requests per second and burst, as JSON, e.g. {"control_per_principal":{"per_second":20,"burst":100}}'),
  /** [C-01] */
  authorizer: z
    .enum(['claim', 'langgraph', 'webhook'])
    .default('claim')
    .describe('who decides who may use a thread: claim, langgraph or webhook'),
  authorizerUrl: outboundUrl.optional().describe('URL of the LangGraph server, without /threads, or of the webhook'),
  authorizerSecret: z
    .string()
    .min(32, 'must have at least 32 characters; generate one with: openssl rand -base64 33')
    .optional()
    .describe('secret that signs requests to the webhook, at least 32 characters'),
  authorizerCache: z.coerce
    .number()
    .int()
    .min(0)
    .max(60)
    .default(60)
    .describe('seconds that a yes of a remote authorizer is cached, at most 60; a no is cached for at most 5'),
  authorizerTimeoutMs: z.number().int().min(10).max(3000).default(3000).describe('milliseconds that a remote authorizer has to answer'),
  /** [C-60] */
  allowPrivateUrls: z.boolean().default(false).describe('allows the authorizer and the JWKS to be at addresses that are not public'),
  oidcIssuer: z.string().min(1).optional().describe('issuer of an identity provider whose tokens are accepted beside API keys'),
  oidcJwksUrl: outboundUrl.optional().describe('URL of the public keys of that identity provider'),
  oidcAudience: z.array(z.string().min(1)).min(1).optional().describe('audiences, separated by commas; a token must have one of them'),
  oidcAlgorithms: z
    .array(z.enum(OIDC_ALGORITHMS))
    .min(1)
    .default(['RS256', 'ES256', 'EdDSA'])
    .describe('signature algorithms that are accepted, separated by commas'),
  oidcTenant: z.string().min(1).max(128).default('default').describe('tenant of tokens in which no claim names one'),
  oidcClaims: z
    .strictObject({
      principal: z.string().min(1).default('sub').describe('claim that names the principal'),
      tenant: z.string().min(1).optional().describe('claim that names the tenant'),
      role: z.string().min(1).optional().describe('claim that names the role (`operator`)'),
      rights: z.string().min(1).optional().describe('claim that names the rights'),
      actorType: z.string().min(1).optional().describe('claim that names the type of the actor (`agent`)'),
    })
    .prefault({})
    .describe(
      'names of claims, as JSON: principal (default sub), tenant, role, rights, actor_type; a claim without a name here does not count',
    ),
  agentHeartbeat: z
    .number()
    .positive()
    .default(2)
    .describe('seconds between two reports of an agent; more with many agents (250 reports a second), at most two thirds of agent_timeout'),
  agentTimeout: z.number().positive().default(6).describe('seconds of silence after which an agent gets no new sandboxes'),
  agentLostAfter: z.coerce
    .number()
    .positive()
    .default(120)
    .describe('seconds of silence after which the sessions of an agent are given up; ensure then makes new ones elsewhere'),
  brokerTimeout: z
    .number()
    .positive()
    .default(5)
    .describe(
      'seconds of silence after which another broker takes over the sessions that a broker was creating; PostgreSQL tells of one that was killed at once',
    ),
  reaperIntervalMs: z.number().int().min(10).default(1000).describe('milliseconds between two rounds of the reaper'),
  logLevel: z
    .enum(['silent', 'error', 'warn', 'info', 'debug', 'trace'])
    .default('info')
    .describe('least severity that is logged: silent, error, warn, info, debug or trace'),
})
export type BrokerConfig = z.input<typeof BrokerConfig>
export type ResolvedBrokerConfig = z.infer<typeof BrokerConfig>

/** Examples that people copy; refused outside loopback, where they would be the key of a real deployment. */
const KNOWN_SECRETS =
  /^(.)\1*$|^(change|example|secret|password|your[-_ ]|insecure|test|demo|sample|bxo_example)|^(0123456789|1234567890|abcdefghij)/i

/** Checks what a schema cannot. Throws `StartError` naming the setting and the fix. */
export function resolveConfig(input: BrokerConfig): ResolvedBrokerConfig {
  const parsed = BrokerConfig.safeParse(input)
  if (!parsed.success) {
    const issue = parsed.error.issues[0]
    const key = issue?.path.join('.') || 'configuration'
    throw new StartError(`setting ${key}${flagOf(key)} is not valid: ${issue === undefined ? 'unknown' : describeIssue(issue)}`)
  }
  const config = { ...parsed.data, profiles: withHosts(parsed.data) }
  if (!isLoopback(config.host)) {
    for (const name of ['apiKey', 'enrollToken', 'authorizerSecret'] as const)
      if (config[name] !== undefined && KNOWN_SECRETS.test(config[name]))
        throw new StartError(
          `setting ${name}${flagOf(name)} is a known example or too simple for a listener on ${config.host}; generate one with: openssl rand -base64 33`,
        )
    if (config.enrollToken !== undefined && config.enrollToken.length < 32)
      throw new StartError(`setting enrollToken (--enroll-token) needs at least 32 characters for a listener on ${config.host}`)
  }
  requireWhole(config)
  requireShared(config)
  configuredServers(config)
  requireBoxProfile(config)
  for (const name of ['authorizerUrl', 'oidcJwksUrl'] as const) requireDialable(config, name)
  return config
}

/** Settings that mean nothing without each other. */
function requireWhole(config: ResolvedBrokerConfig): void {
  const needs = (name: keyof ResolvedBrokerConfig, why: string): void => {
    if (config[name] === undefined) throw new StartError(`setting ${name}${flagOf(name)} is required ${why}`)
  }
  if (config.authorizer !== 'claim') needs('authorizerUrl', `with authorizer "${config.authorizer}"`)
  if (config.authorizer === 'webhook') needs('authorizerSecret', 'with authorizer "webhook"')
  const oidc = ['oidcIssuer', 'oidcJwksUrl', 'oidcAudience'] as const
  const given = oidc.find((name) => config[name] !== undefined)
  if (given !== undefined) for (const name of oidc) needs(name, `with ${given}`)
  if (given !== undefined && config.oidcIssuer === config.publicUrl)
    throw new StartError(`setting oidcIssuer${flagOf('oidcIssuer')} is this broker itself: session tokens are no server credentials`)
}

function requireBoxProfile(config: ResolvedBrokerConfig): void {
  const names = [...profilesOf(config).keys()]
  if (!names.includes(config.box.profile))
    throw new StartError(`setting box.profile: there is no profile "${config.box.profile}"; there are: ${names.join(', ')}`)
}

/** The configured profiles, with the hosts of the lists that their policies name. */
function withHosts({ profiles, egressLists }: ResolvedBrokerConfig): Profile[] {
  try {
    return profiles.map((profile) => ({ ...profile, ...(profile.egress && { egress: resolveLists(profile.egress, egressLists) }) }))
  } catch (thrown) {
    throw new StartError(`setting profiles is not valid: ${fromUnknown(thrown).message}`)
  }
}

/** What the configuration says plainly is refused at the start; where a name leads is checked at each call [C-60]. */
function requireDialable(config: ResolvedBrokerConfig, name: 'authorizerUrl' | 'oidcJwksUrl'): void {
  const text = config[name]
  if (text === undefined || config.allowPrivateUrls) return
  const url = new URL(text)
  const setting = `setting ${name}${flagOf(name)}`
  const address = literalAddress(url)
  if (address !== undefined && !permits(targetPolicy(config), address))
    throw new StartError(`${setting} is at ${address}, which is not public; set allowPrivateUrls (--allow-private-urls) if that is meant`)
  if (url.protocol === 'http:' && !isLoopback(url.hostname))
    throw new StartError(
      `${setting} must be https: credentials and decisions cross the network; or set allowPrivateUrls (--allow-private-urls) for a private one`,
    )
}

/** A broker that only its own machine reaches may have its authorizer and identity provider there too. */
export const targetPolicy = ({ allowPrivateUrls, host }: ResolvedBrokerConfig): TargetPolicy =>
  allowPrivateUrls ? 'any' : isLoopback(host) ? 'loopback' : 'public'

/** Built-in profiles and the configured ones, by name. */
export const profilesOf = (config: ResolvedBrokerConfig): ReadonlyMap<string, Profile> =>
  new Map([...BUILT_IN_PROFILES, ...config.profiles].map((profile) => [profile.name, profile]))

/** Which images clients may name: those of the profiles, of Box and of MCP servers in the settings, and what `images.allowed` adds. */
export const mayNameImageOf = (config: ResolvedBrokerConfig): MayNameImage =>
  allowedImages(config.images, [
    ...[...profilesOf(config).values(), config.box].map(({ image }) => image),
    ...configuredServers(config).map(({ box }) => box.image),
  ])

/** Whether others than this machine's users can reach the broker. */
export const isExposed = ({ host, publicUrl }: ResolvedBrokerConfig): boolean =>
  !isLoopback(host) || (publicUrl !== undefined && !isLoopback(new URL(publicUrl).hostname))

const flagOf = (key: string): string =>
  key in BrokerConfig.shape ? ` (--${key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)})` : ''
