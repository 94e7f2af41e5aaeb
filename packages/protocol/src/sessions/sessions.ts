import { z } from 'zod'
import { Capability } from '../base/capabilities.ts'
import { hasControlCharacter, ScopeId } from '../base/ids.ts'
import { SessionNetwork } from './egress.ts'
import { AbsolutePath } from './mounts.ts'

export const SCOPE_TYPES = ['thread', 'workspace', 'assistant', 'deployment'] as const
export const Scope = z.object({ type: z.enum(SCOPE_TYPES), id: ScopeId })
export type Scope = z.infer<typeof Scope>

export const SESSION_STATES = ['provisioning', 'active', 'idle', 'suspended', 'terminated', 'failed'] as const
export const SessionState = z.enum(SESSION_STATES)
export type SessionState = z.infer<typeof SessionState>

export const RelayPreference = z.enum(['auto', 'always', 'never'])
export type RelayPreference = z.infer<typeof RelayPreference>

const Labels = z
  .record(z.string().max(128), z.string().max(256))
  .refine((labels) => Object.keys(labels).length <= 64, 'at most 64 labels')
  .superRefine((labels, context) => {
    for (const [name, value] of Object.entries(labels))
      for (const [what, text] of [
        ['name', name],
        ['value', value],
      ] as const)
        if (hasControlCharacter(text))
          context.addIssue({ code: 'custom', message: `the ${what} of ${JSON.stringify(name)} must not contain control characters` })
  })

/** Principals by their names, as keys and tokens have them. */
export const Members = z
  .array(z.string().min(1).max(256))
  .max(256)
  .transform((names) => [...new Set(names)])

/** What a scope template is rendered with; names that it does not use are ignored (contract 4.3). */
export const ScopeVariables = z.record(z.string().max(64), z.union([z.string().max(1000), z.number()]))
export type ScopeVariables = z.infer<typeof ScopeVariables>

/** `get` is `attach_only` by its MVP name [4-73]. */
export const NEGOTIATE_MODES = ['get', 'ensure', 'attach_only', 'create_only'] as const

/** On whose behalf a request is made: a claim, not a credential [4-74]. */
export const Actor = z.object({ type: z.enum(['human', 'agent']), id: ScopeId })
export type Actor = z.infer<typeof Actor>

/** Names of capabilities, their aliases, and names that nobody knows. */
const RequestedCapabilities = z.array(z.string().min(1).max(64)).max(64)

/** `POST /v1/sandbox/sessions` in both shapes: `thread_id` (MVP) or `scope` (full). Unknown fields are ignored [4-18]. */
export const NegotiateRequest = z
  .object({
    thread_id: ScopeId.optional(),
    scope: Scope.optional(),
    /** In the place of `thread_id`: the thread is what the template gives for `variables`; default template as in contract 4.3. */
    scope_template: z.string().max(1000).optional(),
    variables: ScopeVariables.optional(),
    mode: z.enum(NEGOTIATE_MODES),
    /** Default: the caller. */
    actor: Actor.optional(),
    /** Default: everything that policy allows; `[]` for nothing. Names that nobody knows are ignored with a warning, and refused alone [C-56]. */
    requested_capabilities: RequestedCapabilities.optional(),
    /** A sandbox id; used only when it is the sandbox that the scope has anyhow [C-22]. */
    sandbox_hint: z.string().max(256).optional(),
    /** `auto` or the name of a provider [4-79]. */
    provider_preference: z.string().min(1).max(64).optional(),
    profile: z.string().min(1).max(64).optional(),
    relay: RelayPreference.optional(),
    labels: Labels.optional(),
    on_mismatch: z.enum(['warn', 'fail']).optional(),
    /** Who else may use the scope; by its owner only. */
    members: Members.optional(),
    /** A directory of the agent's host in the place of a workspace that it makes; by operators only [2-113]. */
    workspace: z.object({ host_path: AbsolutePath }).optional(),
  })
  .superRefine(({ thread_id, scope, scope_template, variables }, context) => {
    const refuse = (field: string, message: string) => context.addIssue({ code: 'custom', path: [field], message })
    const templated = scope_template !== undefined || variables !== undefined
    if (templated && (thread_id !== undefined || scope !== undefined))
      refuse(scope_template === undefined ? 'variables' : 'scope_template', 'stands in the place of thread_id and scope; send one of them')
    if (thread_id === undefined && scope === undefined && !templated) refuse('thread_id', 'is required and must be a string')
    // Both may be given when they say the same [C-09].
    if (thread_id !== undefined && scope !== undefined && (scope.type !== 'thread' || scope.id !== thread_id))
      refuse('scope', 'must be the thread of thread_id when both are given; send one of them')
  })
export type NegotiateRequest = z.infer<typeof NegotiateRequest>

export const SandboxCoordinates = z.object({
  id: z.string(),
  provider: z.string(),
  http_base_url: z.string(),
  ws_base_url: z.string(),
})

/** What `POST /v1/sandbox/sessions` answers to either shape; `config.configurable.sandbox` carries the same [4-170]. */
export const MvpNegotiateResponse = z.object({
  session_id: z.string(),
  thread_id: z.string().nullable(),
  sandbox: SandboxCoordinates,
  token: z.string(),
  expires_at: z.string(),
})
export type MvpNegotiateResponse = z.infer<typeof MvpNegotiateResponse>

export const Binding = z.object({
  id: z.string(),
  scope: Scope,
  sandbox_id: z.string().nullable(),
  provider: z.string().nullable(),
  state: SessionState,
  lease_expires_at: z.string().nullable(),
  created_at: z.string(),
  profile: z.string(),
  isolation: z.string().nullable(),
  /** Brokers before 2027 do not say. */
  network: SessionNetwork.optional(),
  labels: z.record(z.string(), z.string()),
  generation: z.number().int(),
  reason: z.string().nullable(),
})
export type Binding = z.infer<typeof Binding>

export const Credentials = z.object({
  token_type: z.literal('Bearer'),
  access_token: z.string(),
  expires_at: z.string(),
  granted_capabilities: z.array(Capability),
})

export const Policy = z.object({
  idle_timeout_seconds: z.number(),
  hard_ttl_seconds: z.number(),
  lease_seconds: z.number(),
  stop_after_seconds: z.number(),
  on_lease_expiry: z.enum(['suspend', 'terminate']),
})

/** Every 200 carries the MVP fields and the full blocks (contract 2.3). */
export const NegotiateResponse = MvpNegotiateResponse.extend({
  token_type: z.literal('Bearer'),
  warnings: z.array(z.string()),
  binding: Binding,
  dataplane: z.object({ http_base_url: z.string(), ws_base_url: z.string(), mode: z.enum(['direct', 'relay']) }),
  credentials: Credentials,
  policy: Policy,
})
export type NegotiateResponse = z.infer<typeof NegotiateResponse>

export const RefreshResponse = z.object({ token: z.string(), expires_at: z.string() })
export type RefreshResponse = z.infer<typeof RefreshResponse>

/** `POST …/{id}/refresh` and `POST …/{id}/refresh-token`. */
export const RefreshRequest = z.object({
  /** Default: the one that the caller negotiated for last. */
  actor: Actor.optional(),
  /** As in the request that the token came with. Default: all of the actor's grant, which is never exceeded [C-57]. */
  requested_capabilities: RequestedCapabilities.optional(),
})
export type RefreshRequest = z.infer<typeof RefreshRequest>

/** What `POST …/{id}/refresh-token` answers [4-83]. */
export const RefreshTokenResponse = RefreshResponse.extend({ credentials: Credentials })
export type RefreshTokenResponse = z.infer<typeof RefreshTokenResponse>

/** What `POST …/{id}/heartbeat` answers: the lease as it is now, no token [4-84]. */
export const HeartbeatResponse = z.object({ binding: Binding, lease_expires_at: z.string() })
export type HeartbeatResponse = z.infer<typeof HeartbeatResponse>

export const ListSessionsResponse = z.object({ sessions: z.array(Binding), next_cursor: z.string().nullable() })
export type ListSessionsResponse = z.infer<typeof ListSessionsResponse>
