import { z } from 'zod'
import { KnownCapabilities } from '../base/capabilities.ts'
import { PreviewDomain } from '../sessions/previews.ts'
import { SentProfile } from '../sessions/profiles.ts'
import { RelayPreference } from '../sessions/sessions.ts'
import { Jwks } from '../sessions/token.ts'
import { JOURNAL_BATCH, JournalEntry } from './journal.ts'

/** Agent to broker: `POST B/v1/agents/register` and `POST B/v1/agents/{id}/heartbeat`. */

/** What agents and sandboxes are called: printable ASCII, so that every database holds it. */
const name = (characters: number) => z.string().regex(new RegExp(`^[\\x21-\\x7e]{0,${characters}}$`))
/** Of one start of an agent [2-28]. */
const InstanceId = z.string().regex(/^[0-9a-f]{12}$/)

/** What sandboxes of an agent are held to, and what they can have there; what is not enforced is said, never passed over [2-03]. */
export const ProviderAbilities = z.object({
  limits: z.array(z.string()),
  not_enforced: z.array(z.string()),
  network: z.boolean(),
  /** Whether sandboxes can have `network: "proxy"`; agents of before do not say, and cannot. */
  egress: z.boolean().optional(),
  extra_mounts: z.boolean(),
  oci_runtimes: z.array(z.string()),
  /** Whether a sandbox can have an image; agents of before do not say. */
  images: z.boolean().optional(),
})
export type ProviderAbilities = z.infer<typeof ProviderAbilities>

export const ProviderReport = z.object({
  /** Null when no provider is available; `reason` then says why and what to do. */
  name: z.string().nullable(),
  isolation: z.string().nullable(),
  available: z.boolean(),
  reason: z.string().nullable(),
  suspend: z.array(z.enum(['freeze', 'stop'])),
  capabilities: ProviderAbilities.optional(),
  /** For what alone the agent's sandboxes are; absent: for everything. */
  reserved: z.literal('mcp').optional(),
})
export type ProviderReport = z.infer<typeof ProviderReport>

const Taken = z.object({ have: z.number().nonnegative(), asked: z.number().nonnegative() })

/** What an agent has for sandboxes, and what those that it has ask for; brokers choose agents by it. */
export const AgentCapacity = z.object({
  /** Sandboxes of sessions, in whatever state. */
  sessions: z.number().int().nonnegative(),
  /** How many more sandboxes it would take now. */
  room: z.number().int().nonnegative(),
  /** What it runs out of first. */
  limit: z.string().max(64),
  /** Bytes; asked for by the profiles of what is not stopped. */
  memory: Taken,
  processors: Taken,
})
export type AgentCapacity = z.infer<typeof AgentCapacity>

/** What is happening in a sandbox; the broker's idle decisions rest on it [C-51]. */
export const SandboxActivity = z.object({
  running: z.number().int(),
  attached: z.number().int(),
  /** Milliseconds since the last dataplane request or frame, by the agent's monotonic clock [C-77]. */
  idle_ms: z.number().nonnegative(),
})
export type SandboxActivity = z.infer<typeof SandboxActivity>

export const SANDBOX_STATES = ['starting', 'running', 'frozen', 'stopped', 'lost'] as const
export const SandboxReport = z.object({
  sandbox_id: name(128),
  /** Null for a sandbox that waits in the pool. */
  session_id: name(128).nullable(),
  state: z.enum(SANDBOX_STATES),
  generation: z.number().int(),
  profile_hash: z.string(),
  activity: SandboxActivity,
  /** The revision of the last order for its egress, 0 before the first; absent where it has no proxy, and from agents before 2027. */
  egress_revision: z.number().int().nonnegative().optional(),
  /** Why it is `lost`, else null. */
  reason: z.string().nullable(),
  /** With `lost`: its agent has ended it with itself, so there is nothing to destroy, and nobody to be told [2-27]. */
  gone: z.boolean().optional(),
})
export type SandboxReport = z.infer<typeof SandboxReport>

const base64url = z.string().regex(/^[A-Za-z0-9_-]{1,128}$/)

/** `POST B/v1/agents/challenge`: what a registration has to sign, once, within 60 s. */
export const AgentChallenge = z.object({ issuer: z.string(), nonce: base64url })
export type AgentChallenge = z.infer<typeof AgentChallenge>

/** Says that a registration is from whoever has the key of the install [C-50]. */
export const AgentProof = z.object({
  /** Ed25519, the `x` of its JWK. */
  public_key: base64url,
  nonce: base64url,
  /** By that key, over `registrationStatement`. */
  signature: base64url,
})
export type AgentProof = z.infer<typeof AgentProof>

export const RegisterAgentRequest = z.object({
  /** Stable over restarts of the same data directory. */
  install_id: name(64).min(8),
  /** New at each agent start [2-28]. */
  instance_id: InstanceId,
  public_url: z.url(),
  /** Where brokers reach the dataplane to relay: `http(s)://…`, or `unix:/path` on their own machine. Default: `public_url`. */
  dataplane_url: z.url({ protocol: /^(?:https?|unix)$/ }).optional(),
  /** Below it exposed ports have their hosts where browsers reach this agent; default: that of the brokers. */
  preview_domain: PreviewDomain.optional(),
  /** `http(s)://…`, where the broker reaches the control API. */
  control_url: z.url(),
  relay: RelayPreference,
  provider: ProviderReport,
  /** Agents of before do not say. */
  capacity: AgentCapacity.optional(),
  sandboxes: z.array(SandboxReport),
  /** Not all sandboxes: the provider has not told yet what an earlier run of the agent left. */
  partial: z.boolean().optional(),
  /** The agent's clock, RFC 3339, for the drift report [C-48]. */
  clock: z.string(),
  version: name(64),
  /** Required once the install has registered with a key. */
  proof: AgentProof.optional(),
  /** That of the present registration, if there is one: it is the same process that comes again. */
  agent_token: z.string().max(256).optional(),
})
export type RegisterAgentRequest = z.infer<typeof RegisterAgentRequest>

type Stated = Pick<RegisterAgentRequest, 'install_id' | 'instance_id' | 'public_url' | 'control_url' | 'dataplane_url' | 'preview_domain'>

/** The text that an agent signs: who it is, to whom it says so, and where it is to be reached. */
export const registrationStatement = (issuer: string, request: Stated, proof: Pick<AgentProof, 'public_key' | 'nonce'>): string =>
  JSON.stringify([
    'boxoffice agent registration',
    issuer,
    request.install_id,
    request.instance_id,
    proof.public_key,
    request.public_url,
    request.control_url,
    request.dataplane_url ?? null,
    proof.nonce,
    // Agents of before have none.
    ...(request.preview_domain === undefined ? [] : [request.preview_domain]),
  ])

/** What the broker decides about a sandbox that the agent reported. */
export const SandboxDecision = z.object({
  sandbox_id: z.string(),
  action: z.enum(['keep', 'destroy']),
  /** With `destroy`: the session was released with `keep_workspace` while the agent was away [C-55]. */
  keep_workspace: z.boolean().optional(),
  /** With `keep`: sandbox and session do not agree yet, so that the next report tells of it whether or not it changes. */
  again: z.boolean().optional(),
})

/** Why a session is over, as agents are told. */
export const SessionEnd = z.enum(['released', 'hard_ttl', 'lease', 'idle', 'failed'])
export type SessionEnd = z.infer<typeof SessionEnd>

/** Denials that agents hold [C-30]. Times in Unix seconds; an entry may be forgotten after `until`. */
export const Revocations = z.object({
  sessions: z.array(z.object({ session_id: z.string(), reason: SessionEnd, until: z.number() })),
  tokens: z.array(z.object({ jti: z.string(), until: z.number() })),
  /** Every token of the sandbox issued before `min_iat` is refused. */
  sandboxes: z.array(z.object({ sandbox_id: z.string(), min_iat: z.number(), until: z.number() })).optional(),
  /** An actor's rights in a session were narrowed: its tokens with `iat` ≤ `before` grant no more than `caps` [C-57]. */
  grants: z
    .array(z.object({ session_id: z.string(), sub: z.string(), caps: KnownCapabilities, before: z.number(), until: z.number() }))
    .optional(),
})
export type Revocations = z.infer<typeof Revocations>

export const AgentInstructions = z.object({
  decisions: z.array(SandboxDecision),
  revocations: Revocations,
  /** Profiles that want a warm pool (`pool_size` > 0). */
  pools: z.array(SentProfile),
  heartbeat_seconds: z.number(),
  /**
   * Reports may tell only of sandboxes that have changed since the last one that was answered; brokers of before do not say, and want
   * all of them. One that is gone is told as `lost`.
   */
  deltas: z.boolean().optional(),
  /** The next report is to tell of all sandboxes. */
  whole: z.boolean().optional(),
  /** The broker's clock, Unix milliseconds: the one by which agents judge tokens [C-77]. */
  broker_time_ms: z.number().optional(),
  /** All keys that count now: a token of another one is refused [C-49]. */
  jwks: Jwks.optional(),
  /** The `iss` of every token that counts now: it changes with the broker's public URL. Brokers of before say it at registration alone. */
  issuer: z.string().optional(),
  /** Control tokens for this agent name its key (`cnf.jkt`); brokers of before do not say. False: the broker has pinned none. */
  control_tokens_bound: z.boolean().optional(),
  /** Entries of the agent's journal up to this number are stored. */
  journal_seq: z.number().int().nonnegative().optional(),
})
export type AgentInstructions = z.infer<typeof AgentInstructions>

export const RegisterAgentResponse = AgentInstructions.extend({
  agent_id: z.string(),
  /** The credential of this agent for heartbeats; shown once. */
  agent_token: z.string(),
  issuer: z.string(),
  jwks: Jwks,
  clock_drift_ms: z.number(),
})
export type RegisterAgentResponse = z.infer<typeof RegisterAgentResponse>

export const AgentHeartbeatRequest = z.object({
  instance_id: InstanceId,
  provider: ProviderReport,
  capacity: AgentCapacity.optional(),
  /** All sandboxes, or with `partial` only those that changed; the broker leaves alone what is not named. */
  sandboxes: z.array(SandboxReport),
  partial: z.boolean(),
  /** What has happened and is not acknowledged yet, oldest first. */
  journal: z.array(JournalEntry).max(JOURNAL_BATCH).optional(),
})
export type AgentHeartbeatRequest = z.infer<typeof AgentHeartbeatRequest>
