import { z } from 'zod'
import { SecretName } from '../secrets/secrets.ts'

/**
 * What `network` of a profile can be: no socket but unix ones, and so not even a loopback; the loopback alone; a way out through the
 * agent's proxy; or a network of the provider's own.
 */
export const NETWORKS = ['none', 'off', 'proxy', 'on'] as const
export const Network = z.enum(NETWORKS)
export type Network = z.infer<typeof Network>

/** Where the proxy listens on the loopback of a sandbox. `ports` never names it. */
export const EGRESS_PORT = 3128

const LABEL = '[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?'
const TARGET = new RegExp(`^(?:(?:\\*\\.)?${LABEL}(?:\\.${LABEL})*|\\*|\\[[0-9a-f:.]{2,45}\\])(?::([1-9]\\d{0,4}))?$`)

/**
 * Where a connection may go: `api.example.com`, `*.example.com` (every name below it, not it itself), `*` (every name), `192.0.2.7`,
 * `[2001:db8::1]`, each with `:port` or without. Without a port: 443; for `*` alone: 80 and 443. `@name` is a list of the broker's file.
 */
export const EgressTarget = z
  .string()
  .max(300)
  .transform((text) => text.toLowerCase())
  .refine((text) => isTarget(text) || /^@[a-z0-9][a-z0-9_-]{0,63}$/.test(text), {
    error: 'must be a host such as api.example.com, *.example.com or *, with :port or without, or @list',
  })

const isTarget = (text: string): boolean => {
  const found = TARGET.exec(text)
  if (found === null || Number(found[1] ?? 0) > 65_535) return false
  // What looks like an address has to be one: 999.1.1.1 is none.
  return text.startsWith('*') || URL.canParse(`http://${text}`)
}

/** Where a request goes and where it ends: two readers that disagree about it see two requests. */
const FRAMING = /^(?:connection|content-length|expect|host|keep-alive|te|trailer|transfer-encoding|upgrade|proxy-.*)$/

/** A header that the agent sets on a request that leaves: `template` with `{{secret}}` in it. What the sandbox sent under that name goes. */
export const EgressInjection = z.strictObject({
  header: z
    .string()
    .regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$/)
    .transform((name) => name.toLowerCase())
    .refine((name) => !FRAMING.test(name), { error: 'must not be a header that frames or routes a request' }),
  secret: SecretName,
  template: z
    .string()
    .max(1024)
    .regex(/^[\t\x20-\x7e]*\{\{secret\}\}[\t\x20-\x7e]*$/, 'must have {{secret}} in it, and be printable')
    .default('{{secret}}'),
})
export type EgressInjection = z.infer<typeof EgressInjection>

/**
 * A rule grants its host, to requests that it describes alone. Absent `methods` or `paths`: all. `**` stands for any path below, `*` for one part.
 * A host with rules is held to them where `allow` names it too; of several rules the first that describes a request counts.
 */
export const EgressRule = z.strictObject({
  host: EgressTarget,
  methods: z
    .array(z.string().regex(/^[A-Z]{1,16}$/))
    .max(16)
    .optional(),
  paths: z.array(z.string().max(1024).regex(/^\//)).max(64).optional(),
  inject: z.array(EgressInjection).max(16).default([]),
  description: z.string().max(500).optional(),
})
export type EgressRule = z.infer<typeof EgressRule>

/**
 * A variable of every process of the sandbox that stands for a secret. The agent puts the value in its place in headers of requests to these
 * hosts over TLS, and nowhere else. It allows no host.
 */
export const EgressPlaceholder = z.strictObject({
  env: z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/, 'must be the name of a variable'),
  secret: SecretName,
  hosts: z
    .array(
      EgressTarget.refine((text) => !/^[*@](?:$|:|[^.])/.test(text), {
        error: 'must be hosts by their names, such as api.example.com or *.example.com',
      }),
    )
    .min(1)
    .max(16),
})
export type EgressPlaceholder = z.infer<typeof EgressPlaceholder>

/** Where programs of a sandbox may connect to. Nothing is allowed that is not named. `deny` wins; without a port it denies every port. */
export const EgressPolicy = z.strictObject({
  allow: z.array(EgressTarget).max(1024).default([]),
  deny: z.array(EgressTarget).max(1024).default([]),
  rules: z.array(EgressRule).max(64).default([]),
  placeholders: z.array(EgressPlaceholder).max(32).default([]),
  /** `terminate`: whose TLS the agent opens: of hosts with rules, of all, of none. `bypass`: never of these (without a port: on every port). */
  tls: z
    .strictObject({ terminate: z.enum(['rules', 'all', 'none']).default('rules'), bypass: z.array(EgressTarget).max(64).default([]) })
    .default({ terminate: 'rules', bypass: [] }),
  /** Allows addresses of private networks. Those of loopback, of the link and of metadata services are refused all the same. */
  private_addresses: z.boolean().default(false),
})
export type EgressPolicy = z.infer<typeof EgressPolicy>

/** The network that a session's profile asks for, and the one that its sandbox has; null where its agent did not say. */
export const SessionNetwork = z.object({ requested: Network, effective: Network.nullable() })
export type SessionNetwork = z.infer<typeof SessionNetwork>

/** What `GET` and `PUT …/sessions/{id}/egress` answer. */
export const SessionEgress = z.object({
  network: SessionNetwork,
  /** The policy that holds now, without lists. Null: nothing is allowed, and with `network: on` every public address on ports 80 and 443. */
  policy: EgressPolicy.nullable(),
  /** Whose policy it is. */
  source: z.enum(['profile', 'session']),
  /** The profile's policy can only be narrowed. */
  locked: z.boolean(),
})
export type SessionEgress = z.infer<typeof SessionEgress>

/** The names of the secrets that rules and placeholders of a policy use. */
export const secretsOfPolicy = ({ rules, placeholders }: EgressPolicy): Set<string> =>
  new Set([...rules.flatMap(({ inject }) => inject), ...placeholders].map(({ secret }) => secret))

/** Lists of targets by their names, which policies write with an `@`. */
export const EgressLists = z.record(
  z.string().regex(/^[a-z0-9][a-z0-9_-]{0,63}$/),
  z.array(EgressTarget.refine((text) => !text.startsWith('@'), { error: 'must be a host: lists hold no lists' })).max(1024),
)
export type EgressLists = z.infer<typeof EgressLists>

/**
 * The policy with the targets of its lists in their places; a rule for a list becomes one for each of its hosts. `missing` is called for
 * a list that is not there and gives what stands for it.
 */
export function withoutLists(policy: EgressPolicy, lists: EgressLists, missing: (name: string) => string[]): EgressPolicy {
  const listed = (text: string): string[] => {
    const name = text.slice(1)
    if (!text.startsWith('@')) return [text]
    return (Object.hasOwn(lists, name) ? lists[name] : undefined) ?? missing(name)
  }
  const { allow, deny, rules, tls } = policy
  if (![...allow, ...deny, ...rules.map(({ host }) => host), ...tls.bypass].some((text) => text.startsWith('@'))) return policy
  return {
    ...policy,
    allow: [...new Set(allow.flatMap(listed))],
    deny: [...new Set(deny.flatMap(listed))],
    rules: rules.flatMap((rule) => listed(rule.host).map((host) => ({ ...rule, host }))),
    tls: { ...tls, bypass: [...new Set(tls.bypass.flatMap(listed))] },
  }
}

/** Why a connection or a request was refused. */
export const EGRESS_CODES = [
  'not_allowed',
  'denied',
  'method_not_allowed',
  'path_not_allowed',
  'private_address',
  'unresolvable',
  'unreachable',
  'sni_mismatch',
  'host_mismatch',
  'bad_request',
  'too_many_connections',
  'port_refused',
  'not_tls',
  'secret_missing',
] as const
export type EgressCode = (typeof EGRESS_CODES)[number]

/** What was decided about connections of a sandbox, as sessions are told. */
export const EgressFact = z.object({
  allowed: z.boolean(),
  protocol: z.enum(['connect', 'http', 'socks5', 'tls']),
  host: z.string().max(300),
  port: z.number().int(),
  /** Where a request could be read. */
  method: z.string().max(32).optional(),
  path: z.string().max(1024).optional(),
  code: z.enum(EGRESS_CODES).optional(),
  /** The entry of the policy that decided. */
  rule: z.string().max(500).optional(),
  times: z.number().int().positive(),
})
export type EgressFact = z.infer<typeof EgressFact>
