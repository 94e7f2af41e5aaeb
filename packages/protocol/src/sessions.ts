import { z } from 'zod'
import { Capability } from './capabilities.ts'
import { ScopeId } from './ids.ts'

export const SCOPE_TYPES = ['thread', 'workspace', 'assistant', 'deployment'] as const
export const Scope = z.object({ type: z.enum(SCOPE_TYPES), id: ScopeId })
export type Scope = z.infer<typeof Scope>

export const SESSION_STATES = ['provisioning', 'active', 'idle', 'suspended', 'terminated', 'failed'] as const
export const SessionState = z.enum(SESSION_STATES)
export type SessionState = z.infer<typeof SessionState>

export const RelayPreference = z.enum(['auto', 'always', 'never'])
export type RelayPreference = z.infer<typeof RelayPreference>

const Labels = z.record(z.string().max(128), z.string().max(256)).refine((labels) => Object.keys(labels).length <= 64, 'at most 64 labels')

/** `POST /v1/sandbox/sessions`, MVP shape. Unknown fields are ignored [4-18]. */
export const MvpNegotiateRequest = z.object({
  thread_id: ScopeId,
  mode: z.enum(['get', 'ensure']),
  profile: z.string().min(1).max(64).optional(),
  relay: RelayPreference.optional(),
  labels: Labels.optional(),
  on_mismatch: z.enum(['warn', 'fail']).optional(),
})
export type MvpNegotiateRequest = z.infer<typeof MvpNegotiateRequest>

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

export const ListSessionsResponse = z.object({ sessions: z.array(Binding), next_cursor: z.string().nullable() })
export type ListSessionsResponse = z.infer<typeof ListSessionsResponse>
