import type { E2bSandbox, E2bToken } from '../e2b-store.ts'

/** One row of `e2b_sandboxes`; `metadata` is JSON. */
export type E2bSandboxRow = {
  id: string
  tenant: string
  principal: string
  session_id: string
  thread_id: string
  template: string
  metadata: string
  auto_pause: number
  made_session: number
  started_at: number
  end_at: number
  paused: number
}

/** One row of `e2b_tokens`; `capabilities` is a JSON array. */
export type E2bTokenRow = { hash: string; sandbox_id: string; actor: string; capabilities: string; made_at: number }

export const toE2bSandboxRow = (sandbox: E2bSandbox): E2bSandboxRow => ({
  id: sandbox.id,
  tenant: sandbox.tenant,
  principal: sandbox.principal,
  session_id: sandbox.sessionId,
  thread_id: sandbox.threadId,
  template: sandbox.template,
  metadata: JSON.stringify(sandbox.metadata),
  auto_pause: sandbox.autoPause ? 1 : 0,
  made_session: sandbox.madeSession ? 1 : 0,
  started_at: sandbox.startedAt,
  end_at: sandbox.endAt,
  paused: sandbox.paused ? 1 : 0,
})

export const toE2bSandbox = (row: E2bSandboxRow): E2bSandbox => ({
  id: row.id,
  tenant: row.tenant,
  principal: row.principal,
  sessionId: row.session_id,
  threadId: row.thread_id,
  template: row.template,
  metadata: JSON.parse(row.metadata) as Record<string, string>,
  autoPause: row.auto_pause !== 0,
  madeSession: row.made_session !== 0,
  startedAt: row.started_at,
  endAt: row.end_at,
  paused: row.paused !== 0,
})

export const toE2bTokenRow = (token: E2bToken): E2bTokenRow => ({
  hash: token.hash,
  sandbox_id: token.sandboxId,
  actor: token.actor,
  capabilities: JSON.stringify(token.capabilities),
  made_at: token.madeAt,
})

export const toE2bToken = (row: E2bTokenRow): E2bToken => ({
  hash: row.hash,
  sandboxId: row.sandbox_id,
  actor: row.actor,
  capabilities: JSON.parse(row.capabilities) as E2bToken['capabilities'],
  madeAt: row.made_at,
})
