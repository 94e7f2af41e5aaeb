import type { Session } from '../../domain/session.ts'
import { LABEL_PREFIX, NEVER_SECONDS } from './box-request.ts'

/** What LangSmith's clients call the state of a box. A frozen one answers as if it ran. */
export type BoxStatus = 'provisioning' | 'ready' | 'stopped' | 'failed'

export const statusOf = (session: Session): BoxStatus => {
  switch (session.state) {
    case 'provisioning':
      return 'provisioning'
    case 'active':
    case 'idle':
      return 'ready'
    case 'suspended':
      return session.mode === 'stop' ? 'stopped' : 'ready'
    case 'terminated':
    case 'failed':
      return 'failed'
  }
}

const MIB = 1024 * 1024
const SESSION_PREFIX = 'ssn_'

/** A box as its clients read it; `dataplaneUrl` is the same over stop and start. */
export function boxView(session: Session, name: string, dataplaneUrl: string): object {
  const { profile } = session
  const own = Object.entries(session.labels).filter(([label]) => label.startsWith(LABEL_PREFIX))
  return {
    id: session.id.slice(SESSION_PREFIX.length),
    name,
    dataplane_url: dataplaneUrl,
    status: statusOf(session),
    created_at: new Date(session.createdAt).toISOString(),
    updated_at: new Date(session.lastActivityAt).toISOString(),
    stopped_at: session.state === 'suspended' && session.mode === 'stop' ? new Date(session.suspendedAt).toISOString() : null,
    idle_ttl_seconds: profile.idle_timeout_seconds === NEVER_SECONDS ? 0 : profile.idle_timeout_seconds,
    ...(profile.on_lease_expiry === 'terminate'
      ? { delete_after_stop_seconds: Math.max(0, profile.lease_seconds - profile.idle_timeout_seconds) }
      : {}),
    vcpus: profile.cpus,
    mem_bytes: profile.memory_mb * MIB,
    ...(profile.workspace_quota_mb > 0 ? { fs_capacity_bytes: profile.workspace_quota_mb * MIB } : {}),
    labels: Object.fromEntries(own.map(([label, value]) => [label.slice(LABEL_PREFIX.length), value])),
  }
}
