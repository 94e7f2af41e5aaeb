import type { SandboxRecord, SandboxReport } from '@boxoffice/protocol'
import type { LiveSandbox } from './live/live-sandbox.ts'

/** What heartbeats and the control API say of a sandbox. */
export const reportOf = (sandbox: LiveSandbox): SandboxReport => {
  const { session_id, profile_hash } = sandbox.file
  // One of the pool is ready only when its supervisor is there; a session's is woken by its first request anyway.
  const awaited = session_id === null && sandbox.state === 'running' && !sandbox.linked
  return {
    sandbox_id: sandbox.id,
    session_id,
    state: awaited ? 'starting' : sandbox.state,
    generation: sandbox.generation,
    profile_hash,
    activity: sandbox.activity.snapshot(),
    ...(sandbox.network === 'proxy' ? { egress_revision: sandbox.file.egress_revision } : {}),
    reason: sandbox.lost?.reason ?? null,
  }
}

/** The answer to the broker's request for a session's sandbox. */
export const recordOf = (sandbox: LiveSandbox, fromPool: boolean): SandboxRecord => ({
  sandbox_id: sandbox.id,
  session_id: sandbox.sessionId,
  provider: sandbox.provider,
  isolation: sandbox.isolation,
  generation: sandbox.generation,
  state: sandbox.state,
  profile_hash: sandbox.file.profile_hash,
  from_pool: fromPool,
  network: sandbox.network,
})
