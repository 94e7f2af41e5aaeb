import { z } from 'zod'
import { Revocations, SANDBOX_STATES, SandboxReport } from './agents.ts'
import { Profile } from './profiles.ts'

/**
 * Broker to agent, on the agent's control listener, with a control token as Bearer. Private; not for clients.
 *
 *   PUT    /control/v1/sessions/{session_id}/sandbox   CreateSandboxRequest → SandboxRecord; idempotent by session id
 *   GET    /control/v1/sandboxes                       → { sandboxes: SandboxReport[] }
 *   GET    /control/v1/sandboxes/{id}                  → SandboxReport (404 BINDING_NOT_FOUND)
 *   POST   /control/v1/sandboxes/{id}/suspend          SuspendRequest → SandboxReport
 *   POST   /control/v1/sandboxes/{id}/resume           → SandboxReport
 *   DELETE /control/v1/sandboxes/{id}?keep_workspace=  → 204, also when it is already gone
 *   POST   /control/v1/revocations                     Revocations → 204
 */
export const CreateSandboxRequest = z.object({
  tenant_id: z.string(),
  profile: Profile,
  labels: z.record(z.string(), z.string()).default({}),
  /** Names a workspace that outlives its sandbox (profile `persistent`); null: one of its own. */
  workspace_id: z.string().nullable().default(null),
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
})
export type SandboxRecord = z.infer<typeof SandboxRecord>

export const SuspendRequest = z.object({ mode: z.enum(['freeze', 'stop']) })
export const ListSandboxesResponse = z.object({ sandboxes: z.array(SandboxReport) })
export { Revocations }
