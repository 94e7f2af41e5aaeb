/** In an order in which what a row refers to is there before it. */
export const COPIED = [
  'profiles',
  'sessions',
  'scopes',
  'scope_members',
  'idempotency',
  'agents',
  'enroll_tokens',
  'agent_challenges',
  'api_keys',
  'settings',
  'audit',
  'session_events',
  'agent_journals',
  'workspaces',
  'grants',
  'session_endings',
  'session_environments',
  'e2b_sandboxes',
  'e2b_tokens',
  'exposed_ports',
] as const

/**
 * What PostgreSQL counts by itself from the sessions, has no need of, or would be wrong: no broker runs on the old database. Codes of links
 * are good for minutes. The last
 * errors of the Box surface are for whoever looks after it now.
 */
export const NOT_COPIED = ['live_by_tenant', 'live_by_agent', 'live_by_label', 'reserve', 'brokers', 'box_errors', 'preview_codes'] as const

/** Copied as well, under the keys of the other database. */
export const SEALED_ANEW = ['secrets'] as const
