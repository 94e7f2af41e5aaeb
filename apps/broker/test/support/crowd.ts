import { MountSet, Profile, type SandboxReport } from '@boxoffice/protocol'
import { dueAt } from '../../src/domain/lifecycle.ts'
import type { ProvisioningSession, Session } from '../../src/domain/session.ts'
import { createLog } from '../../src/host/log.ts'
import { Inventory } from '../../src/registration/inventory.ts'
import { SessionEffects } from '../../src/sessions/effects.ts'
import { SessionWriter } from '../../src/sessions/session-writer.ts'
import type { AgentRecord, Store } from '../../src/store/store.ts'

export const TENANT = 'acme'
export const AGENT = { id: 'agt_1', instanceId: 'i', registeredAt: 0, lastSeenAt: 0 } as AgentRecord

const profile = Profile.parse({ name: 'default' })
const DAY_MS = 24 * 3600 * 1000

/** A session as it is when its row is written; ids are random, times are this moment's. */
export function newSession(fields: Partial<ProvisioningSession> = {}): ProvisioningSession {
  const now = Date.now()
  const id = crypto.randomUUID()
  const session: ProvisioningSession = {
    id,
    tenant: TENANT,
    scope: { type: 'thread', id: `thread-${id}` },
    profile,
    mounts: MountSet.parse({}),
    labels: {},
    relay: 'auto',
    providerPreference: null,
    needsImage: false,
    egress: null,
    shape: 'mvp',
    createdBy: 'me',
    createdAt: now,
    hardExpiresAt: now + DAY_MS,
    leaseExpiresAt: now + DAY_MS,
    lastActivityAt: now,
    busy: false,
    hasGrants: false,
    dueAt: 0,
    revision: 0,
    state: 'provisioning',
    agentId: AGENT.id,
    brokerId: 'brk_1',
    fence: 1,
    provisionDeadline: now + DAY_MS,
    ...fields,
  }
  return { ...session, dueAt: dueAt(session) }
}

/** Makes sessions in a store without any agent, and tells of their sandboxes as an agent would. */
export function openCrowd(store: Store) {
  const log = createLog('silent')
  const effects = new SessionEffects({ store, client: {} as never, log, tokenTtlSeconds: 600, now: Date.now })
  const writer = new SessionWriter(store, effects, Date.now)
  const reports: SandboxReport[] = []
  return {
    writer,
    inventory: new Inventory({ store, writer, effects, log, now: Date.now }),
    /** One for each session that `add` has made, in their order. */
    reports,
    /** Makes an active session; with a label it counts against a quota, too. */
    async add(label?: { key: string; value: string }): Promise<Session> {
      const session = newSession(label && { labels: { [label.key]: label.value } })
      const labelQuota = label === undefined ? null : { ...label, max: 100_000 }
      const terms = { claimFor: 'me', owner: null, maxLive: 100_000, labelQuota }
      const { outcome } = await store.sessions.create(session, terms, { idempotency: null, audit: [], events: [] })
      if (outcome !== 'created') throw new Error(`not created: ${outcome}`)
      const placed = {
        agentId: AGENT.id,
        sandboxId: `sbx_${session.id}`,
        provider: 'local',
        isolation: 'bubblewrap',
        network: null,
        incarnation: 1,
      }
      reports.push({
        sandbox_id: placed.sandboxId,
        session_id: session.id,
        state: 'running',
        activity: { running: 0, attached: 0, idle_ms: 0 },
      } as SandboxReport)
      return (await writer.change(session, { type: 'created', fence: 1, placed })).session
    },
    async grow(to: number): Promise<void> {
      while (reports.length < to) await Promise.all(Array.from({ length: Math.min(50, to - reports.length) }, () => this.add()))
    },
  }
}

/** Processor time of this process for one call, in µs: the least of several averages, as others work here, too. */
export async function costOf(call: () => unknown, { calls = 10, samples = 6 } = {}): Promise<number> {
  const costs: number[] = []
  for (let sample = 0; sample < samples; sample++) {
    const before = process.cpuUsage()
    for (let done = 0; done < calls; done++) await call()
    const { user, system } = process.cpuUsage(before)
    costs.push((user + system) / calls)
  }
  return Math.min(...costs)
}
