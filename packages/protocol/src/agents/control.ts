import { z } from 'zod'
import { EgressPolicy, Network } from '../sessions/egress.ts'
import { MountSet } from '../sessions/mounts.ts'
import { SentProfile } from '../sessions/profiles.ts'
import { Revocations, SANDBOX_STATES, SandboxReport, SessionEnd } from './agents.ts'

/**
 * Broker to agent, on the agent's control listener, with a control token as Bearer. Private; not for clients.
 *
 *   PUT    /control/v1/sessions/{session_id}/sandbox   CreateSandboxRequest → SandboxRecord; idempotent by session id
 *   GET    /control/v1/sandboxes                       → { sandboxes: SandboxReport[] }
 *   GET    /control/v1/sandboxes/{id}                  → SandboxReport (404 BINDING_NOT_FOUND)
 *   GET    /control/v1/sandboxes/{id}/processes        → ListProcessesResponse; it is not woken, and not used by it
 *   POST   /control/v1/sandboxes/{id}/suspend          SuspendRequest → OrderResponse
 *   POST   /control/v1/sandboxes/{id}/resume           ResumeRequest, or nothing → OrderResponse
 *   DELETE /control/v1/sandboxes/{id}?keep_workspace=&reason=   DestroyQuery → 204, also when it is already gone; SandboxUntold while
 *                                                                events of it are to be told
 *   PUT    /control/v1/sandboxes/{id}/ports            ReplacePreviews → 204; also for a sandbox that is not here
 *   PUT    /control/v1/sandboxes/{id}/egress           SetSandboxEgress → SandboxEgressSet; 501 UNSUPPORTED for one without a proxy
 *   GET    /control/v1/sandboxes/{id}/workspace-usage?max_entries=   → WorkspaceUsage
 *   DELETE /control/v1/workspaces/{workspace_id}       → 204, also when it is not there; 409 while a sandbox uses it
 *   POST   /control/v1/revocations                     Revocations → 204
 *   GET    /control/v1/instance                       → AgentInstance
 *   PUT    /control/v1/keys                            Jwks → 204; keys that are not among them count no more [C-49]
 */
export const CreateSandboxRequest = z.object({
  tenant_id: z.string(),
  profile: SentProfile,
  labels: z.record(z.string(), z.string()).default({}),
  /**
   * The scope's workspace, which outlives its sandboxes [C-55]. Mounted if it is there or the profile is `persistent`; otherwise the
   * sandbox has one of its own, which takes this name when it is to be kept. Null: always one of its own.
   */
  workspace_id: z.string().nullable().default(null),
  /** Earlier sessions of the scope whose workspace is to be kept: if the sandbox of one is still here, it ends first. */
  kept_sessions: z.array(z.string()).default([]),
  /** What is here under `workspace_id` is wanted by nobody any more: it goes first. */
  discard_workspace: z.boolean().default(false),
  /** `workspace_host_path`, `workspace_mode` and `mounts`. Others than those of the session's sandbox make it anew [0-34]. */
  ...MountSet.shape,
})
export type CreateSandboxRequest = z.infer<typeof CreateSandboxRequest>

export const SandboxRecord = z.object({
  sandbox_id: z.string(),
  session_id: z.string(),
  provider: z.string(),
  isolation: z.string(),
  generation: z.number().int(),
  state: z.enum(SANDBOX_STATES),
  profile_hash: z.string(),
  from_pool: z.boolean(),
  /** The network that it has; agents before 2027 do not say. */
  network: Network.optional(),
})
export type SandboxRecord = z.infer<typeof SandboxRecord>

/** Which start of which install answers. */
export const AgentInstance = z.object({ install_id: z.string(), instance_id: z.string() })
export type AgentInstance = z.infer<typeof AgentInstance>

/** The sandbox has ended, and its last event has this number in the journal of this instance, which the broker has not acknowledged. */
export const SandboxUntold = z.object({ instance_id: z.string().max(64), journal_seq: z.number().int().positive() })
export type SandboxUntold = z.infer<typeof SandboxUntold>

/** What a sandbox's workspace has on the disk. `entries` stops one beyond the maximum that was asked for. */
export const WorkspaceUsage = z.object({ bytes: z.number(), entries: z.number().int() })
export type WorkspaceUsage = z.infer<typeof WorkspaceUsage>

/**
 * The session's revision when the order was given. Orders of several brokers may overtake one another: an agent drops one that is
 * older than the latest it has had for the sandbox. Brokers before 2026-11 send none, and agents before that ignore it.
 */
const OrderRevision = z.number().int().nonnegative().optional()
/** `force`: a client asks. What runs in it is ended by a stop; without it, and by a freeze, a sandbox in use is refused. Never dropped. */
export const SuspendRequest = z.object({ mode: z.enum(['freeze', 'stop']), force: z.boolean().optional(), revision: OrderRevision })
export type SuspendRequest = z.infer<typeof SuspendRequest>
export const ResumeRequest = z.object({ revision: OrderRevision })
export type ResumeRequest = z.infer<typeof ResumeRequest>
/** `overtaken_by`: the order was dropped, as one with this revision has come before. */
export const OrderResponse = SandboxReport.extend({ overtaken_by: z.number().int().nonnegative().optional() })
export type OrderResponse = z.infer<typeof OrderResponse>
/** `reason`: what its processes are told; brokers before 2026-12 send none, and the agent goes by the revocation of the session. */
export const DestroyQuery = z.object({ keep_workspace: z.stringbool().default(false), reason: SessionEnd.optional() })
/** `policy`: null for what holds without one. `revision`: the session's when it was changed; the order with the highest one holds. */
export const SetSandboxEgress = z.object({ policy: EgressPolicy.nullable(), revision: z.number().int().positive() })
export type SetSandboxEgress = z.infer<typeof SetSandboxEgress>
/** `revision`: of the order that holds now. */
export const SandboxEgressSet = z.object({ revision: z.number().int().positive() })
export type SandboxEgressSet = z.infer<typeof SandboxEgressSet>
export const ListSandboxesResponse = z.object({ sandboxes: z.array(SandboxReport) })
export { Revocations }
