import { EgressPolicy, MountSet, type Network, Profile, type RelayPreference, type Scope, type SessionState } from '@boxoffice/protocol'
import {
  type ActiveSession,
  type EndReason,
  type IdleSession,
  isLive,
  type Placed,
  placedOf,
  type ReasonDetails,
  type Session,
  type SessionPolicy,
  type SuspendMode,
} from '../../domain/session.ts'

/** One row of `sessions`. */
export type SessionRow = {
  id: string
  tenant: string
  scope_type: Scope['type']
  scope_id: string
  state: SessionState
  reason: string | null
  /** Of a failed session, as JSON. */
  reason_details: string | null
  /** Who owned the scope when the session was made. */
  owner: string
  profile_hash: string
  labels: string
  relay: RelayPreference
  shape: 'mvp' | 'full'
  created_by: string
  created_at: number
  hard_expires_at: number
  lease_expires_at: number
  last_activity_at: number
  busy: number
  due_at: number
  revision: number
  agent_id: string
  broker_id: string | null
  fence: number
  provision_deadline: number | null
  sandbox_id: string | null
  provider: string | null
  isolation: string | null
  network: Network | null
  generation: number
  activated_at: number | null
  suspend_mode: SuspendMode | null
  suspended_at: number | null
  ended_at: number | null
  keep_workspace: number
  provider_preference: string | null
  needs_image: number
  /** Empty: no mounts, and a workspace of the agent's making. */
  mounts: string
  /** As JSON; null: as the profile has it. */
  egress: string | null
  /** Not a column; only where a session is looked up by itself. */
  has_grants?: 0 | 1
}

/** Live sessions, as the partial indexes have it; a query must say exactly this to use them. */
export const LIVE = "state IN ('provisioning', 'active', 'idle', 'suspended')"

const NO_LABELS = Object.freeze({})
const NO_MOUNTS: MountSet = Object.freeze(MountSet.parse({}))
const NO_MOUNTS_JSON = JSON.stringify(NO_MOUNTS)

export function toSession(row: SessionRow, profile: Profile): Session {
  const base = {
    id: row.id,
    tenant: row.tenant,
    scope: { type: row.scope_type, id: row.scope_id },
    profile,
    labels: row.labels === '{}' ? NO_LABELS : (JSON.parse(row.labels) as Record<string, string>),
    relay: row.relay,
    providerPreference: row.provider_preference,
    needsImage: row.needs_image !== 0,
    mounts: row.mounts === '' ? NO_MOUNTS : MountSet.parse(JSON.parse(row.mounts)),
    egress: row.egress === null ? null : policyIn(row.egress),
    shape: row.shape,
    createdBy: row.created_by,
    createdAt: row.created_at,
    hardExpiresAt: row.hard_expires_at,
    leaseExpiresAt: row.lease_expires_at,
    lastActivityAt: row.last_activity_at,
    busy: row.busy !== 0,
    fence: row.fence,
    dueAt: row.due_at,
    revision: row.revision,
    hasGrants: row.has_grants === 1,
    agentId: row.agent_id,
  }
  switch (row.state) {
    case 'provisioning':
      return { ...base, state: 'provisioning', brokerId: row.broker_id ?? '', provisionDeadline: row.provision_deadline ?? 0 }
    case 'active':
    case 'idle':
      return { ...base, ...placementIn(row), state: row.state }
    case 'suspended':
      return { ...base, ...placementIn(row), state: 'suspended', mode: row.suspend_mode ?? 'freeze', suspendedAt: row.suspended_at ?? 0 }
    case 'terminated':
    case 'failed': {
      const end = {
        ...base,
        endedAt: row.ended_at ?? 0,
        placed: row.sandbox_id === null ? null : placementIn(row),
        keepWorkspace: row.keep_workspace !== 0,
      }
      return row.state === 'failed'
        ? { ...end, state: 'failed', reason: row.reason ?? 'unknown', reasonDetails: detailsIn(row) }
        : { ...end, state: 'terminated', reason: (row.reason ?? 'released') as EndReason }
    }
  }
}

/** By the schema: a release of before may have written it without what has come since. */
const policyIn = (json: string): SessionPolicy => {
  const { policy, revision } = JSON.parse(json) as SessionPolicy
  return { policy: EgressPolicy.nullable().parse(policy), revision }
}

const detailsIn = ({ reason_details: json }: SessionRow): ReasonDetails | null =>
  json === null ? null : (JSON.parse(json) as ReasonDetails)

const placementIn = (row: SessionRow): Placed => ({
  agentId: row.agent_id,
  sandboxId: row.sandbox_id ?? '',
  provider: row.provider ?? '',
  isolation: row.isolation ?? '',
  network: row.network,
  incarnation: row.generation,
  activatedAt: row.activated_at ?? 0,
})

const mountsColumn = (mounts: MountSet): string => {
  if (mounts === NO_MOUNTS) return ''
  const json = JSON.stringify(mounts)
  return json === NO_MOUNTS_JSON ? '' : json
}

/** All columns but those that the store adds. */
export function toRow(session: Session): Omit<SessionRow, 'profile_hash' | 'owner' | 'has_grants'> {
  const placed = placedOf(session)
  const provisioning = session.state === 'provisioning' ? session : null
  const suspended = session.state === 'suspended' ? session : null
  return {
    id: session.id,
    tenant: session.tenant,
    scope_type: session.scope.type,
    scope_id: session.scope.id,
    state: session.state,
    reason: isLive(session) ? null : session.reason,
    reason_details: session.state === 'failed' && session.reasonDetails !== null ? JSON.stringify(session.reasonDetails) : null,
    labels: JSON.stringify(session.labels),
    relay: session.relay,
    provider_preference: session.providerPreference,
    needs_image: session.needsImage ? 1 : 0,
    mounts: mountsColumn(session.mounts),
    egress: session.egress === null ? null : JSON.stringify(session.egress),
    shape: session.shape,
    created_by: session.createdBy,
    created_at: session.createdAt,
    hard_expires_at: session.hardExpiresAt,
    lease_expires_at: session.leaseExpiresAt,
    last_activity_at: session.lastActivityAt,
    busy: session.busy ? 1 : 0,
    due_at: session.dueAt,
    revision: session.revision,
    agent_id: session.agentId,
    broker_id: provisioning?.brokerId ?? null,
    fence: session.fence,
    provision_deadline: provisioning?.provisionDeadline ?? null,
    sandbox_id: placed?.sandboxId ?? null,
    provider: placed?.provider ?? null,
    isolation: placed?.isolation ?? null,
    network: placed?.network ?? null,
    generation: placed?.incarnation ?? 0,
    activated_at: placed?.activatedAt ?? null,
    suspend_mode: suspended?.mode ?? null,
    suspended_at: suspended?.suspendedAt ?? null,
    ended_at: isLive(session) ? null : session.endedAt,
    keep_workspace: !isLive(session) && session.keepWorkspace ? 1 : 0,
  }
}

/** What a session never changes, as columns. */
const FIXED: ReadonlySet<string> = new Set<keyof SessionRow>([
  ...([
    'id',
    'tenant',
    'scope_type',
    'scope_id',
    'owner',
    'profile_hash',
    'labels',
    'relay',
    'provider_preference',
    'needs_image',
  ] as const),
  ...(['shape', 'created_by', 'created_at', 'hard_expires_at', 'revision'] as const),
])

/** Only for its keys: the columns in one place, typed by `toRow`. */
const SHAPE: Session = {
  id: '',
  tenant: '',
  scope: { type: 'thread', id: '' },
  profile: Profile.parse({ name: 'x' }),
  labels: {},
  relay: 'auto',
  providerPreference: null,
  needsImage: false,
  mounts: NO_MOUNTS,
  egress: null,
  shape: 'mvp',
  createdBy: '',
  createdAt: 0,
  hardExpiresAt: 0,
  leaseExpiresAt: 0,
  lastActivityAt: 0,
  busy: false,
  hasGrants: false,
  dueAt: 0,
  revision: 0,
  state: 'provisioning',
  agentId: '',
  brokerId: '',
  fence: 1,
  provisionDeadline: 0,
}

/** The columns that a new row has, and those that a change may write; the latter raises `revision` beside. */
export const SESSION_COLUMNS = Object.keys({ ...toRow(SHAPE), owner: '', profile_hash: '' }) as readonly (keyof SessionRow)[]
export const CHANGING_COLUMNS = SESSION_COLUMNS.filter((name) => !FIXED.has(name))

/**
 * Whether a change only says that the session is used. It moves times forward, so two of them need not exclude each other, only what
 * changes the session otherwise.
 */
export const isTouch = (before: Session, after: Session): after is ActiveSession | IdleSession =>
  (after.state === 'active' || after.state === 'idle') &&
  before.state === after.state &&
  before.dueAt === after.dueAt &&
  before.mounts === after.mounts &&
  before.egress === after.egress &&
  before.busy === after.busy
