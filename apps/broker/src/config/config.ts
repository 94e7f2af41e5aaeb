import { BUILT_IN_PROFILES, describeIssue, Profile, Rate } from '@boxoffice/protocol'
import { z } from 'zod'
import { StartError } from '../host/start-error.ts'
import { literalAddress, permits, type TargetPolicy } from '../outbound/targets.ts'
import { BoxSettings } from './box.ts'
import { configuredServers } from './configured-servers.ts'
import { allowedImages, ImageSettings, type MayNameImage } from './images.ts'
import { McpServerConfig, McpSettings } from './mcp-server.ts'
import { OIDC_ALGORITHMS } from './oidc.ts'

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

/** Settings of the broker. Durations in seconds unless the name says otherwise. */
export const BrokerConfig = z.object({
  host: z.string().min(1).default('127.0.0.1'),
  /** 0 chooses a free one. */
  port: z.coerce.number().int().min(0).max(65535).default(7070),
  /** Holds everything that persists: database, signing keys, lock. Made with mode 0700 when missing. */
  dataDir: z.string().min(1),
  /** Where clients reach this broker; `iss` of its tokens. Default: where it listens. */
  publicUrl: z
    .url({ protocol: /^https?$/, error: 'must be an http:// or https:// URL' })
    .transform(withoutSlash)
    .optional(),
  /** What agents show to register. Default: made at the first start and kept in the data directory. */
  enrollToken: z.string().min(8, 'must have at least 8 characters').optional(),
  /** An operator key for this deployment. */
  apiKey: z.string().min(32, 'must have at least 32 characters; generate one with: openssl rand -base64 33').optional(),
  /** Make an operator key at the first start if `apiKey` is not set, and give it back at each start. Loopback only. */
  createApiKey: z.boolean().default(false),
  tokenTtl: z.coerce.number().int().min(60).max(3600).default(600),
  keyRotation: z.coerce
    .number()
    .int()
    .min(3600)
    .default(30 * 24 * 3600),
  /** Added to the built-in ones; one of the same name replaces it. */
  profiles: z.array(z.strictObject(Profile.shape)).default([]),
  /** Which images clients may name (contract 9). */
  images: ImageSettings.prefault({}),
  sharedDataDir: z.boolean().default(false),
  features: Features.prefault({}),
  compat: Compat.prefault({}),
  /** Seconds that a step may take at most, of seed 003's surface. */
  stepTimeout: z.coerce.number().min(1).max(86_400).default(30),
  /** The Box surface (contract 4.7). */
  box: BoxSettings.prefault({}),
  /** Listeners of its own, for clients that expect it at the root of a port [2-44]. 0 chooses a free one. */
  boxPort: z.coerce.number().int().min(0).max(65535).optional(),
  boxRpcPort: z.coerce.number().int().min(0).max(65535).optional(),
  /** MCP servers that run in sandboxes from the start on (contract 4.6). */
  mcpServers: z.array(McpServerConfig).default([]),
  mcp: McpSettings.prefault({}),
  corsOrigins: z.array(z.string()).default([]),
  /** Addresses whose X-Forwarded-For counts. */
  trustedProxies: z.array(z.string()).default([]),
  /** Of each listener. */
  maxConnections: z.coerce.number().int().min(16).default(8192),
  tls: z.object({ cert: z.string(), key: z.string() }).optional(),
  /** The supervisor's binary, which moves large uploads to agents past this process. Default: the shipped one; false: none. */
  relayMover: z
    .union([z.literal(false), z.literal('false').transform(() => false as const), z.string().min(1)], { error: 'must be a path or false' })
    .optional(),
  /** Live sessions per tenant. */
  maxSessions: z.coerce.number().int().min(1).default(1000),
  rateLimits: z
    .strictObject({
      createPerPrincipal: Rate.default({ perSecond: 50, burst: 200 }),
      createPerTenant: Rate.default({ perSecond: 200, burst: 400 }),
      authFailures: Rate.default({ perSecond: 10, burst: 50 }),
      /** Every authenticated request; off unless it is set. */
      controlPerPrincipal: Rate.optional(),
      controlPerTenant: Rate.optional(),
    })
    .prefault({}),
  /** Who decides who may use a scope [C-01]. */
  authorizer: z.enum(['claim', 'langgraph', 'webhook']).default('claim'),
  /** Of the LangGraph server (what comes before `/threads`), or of the webhook. */
  authorizerUrl: outboundUrl.optional(),
  /** Signs what the webhook is asked. */
  authorizerSecret: z.string().min(32, 'must have at least 32 characters; generate one with: openssl rand -base64 33').optional(),
  /** Seconds that a remote authorizer's yes is remembered; a no at most 5. */
  authorizerCache: z.coerce.number().int().min(0).max(60).default(60),
  authorizerTimeoutMs: z.number().int().min(10).max(3000).default(3000),
  /** The authorizer and the JWKS may be at addresses that are not public [C-60]. */
  allowPrivateUrls: z.boolean().default(false),
  /** Tokens of this issuer are accepted beside API keys. */
  oidcIssuer: z.string().min(1).optional(),
  oidcJwksUrl: outboundUrl.optional(),
  /** One of these must be in `aud`. */
  oidcAudience: z.array(z.string().min(1)).min(1).optional(),
  oidcAlgorithms: z.array(z.enum(OIDC_ALGORITHMS)).min(1).default(['RS256', 'ES256', 'EdDSA']),
  /** The tenant of tokens whose claims name none. */
  oidcTenant: z.string().min(1).max(128).default('default'),
  oidcClaims: z
    .strictObject({
      principal: z.string().min(1).default('sub'),
      tenant: z.string().min(1).optional(),
      role: z.string().min(1).optional(),
      rights: z.string().min(1).optional(),
      actorType: z.string().min(1).optional(),
    })
    .prefault({}),
  agentHeartbeat: z.number().positive().default(2),
  /** An agent that was silent for longer is not given new sandboxes. */
  agentTimeout: z.number().positive().default(6),
  /** The sessions of an agent that was silent for longer are given up. */
  agentLostAfter: z.coerce.number().positive().default(120),
  /** A broker on a shared data directory that was silent for longer loses what it was creating to the others. */
  brokerTimeout: z.number().positive().default(5),
  reaperIntervalMs: z.number().int().min(10).default(1000),
  logLevel: z.enum(['silent', 'error', 'warn', 'info', 'debug', 'trace']).default('info'),
})
export type BrokerConfig = z.input<typeof BrokerConfig>
export type ResolvedBrokerConfig = z.infer<typeof BrokerConfig>

function withoutSlash(url: string): string {
  return url.replace(/\/+$/, '')
}

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
  const config = parsed.data
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

export const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '::1' || host === '[::1]' || /^127(\.\d{1,3}){3}$/.test(host) || /^::ffff:127\./.test(host)

const flagOf = (key: string): string =>
  key in BrokerConfig.shape ? ` (--${key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)})` : ''
