import { fromUnknown } from '@boxoffice/protocol'
import type { AgentSilence } from '../agents/silence.ts'
import { systemOrigin } from '../domain/audit-entry.ts'
import { isLive, type LiveSession, type Session, type SuspendMode } from '../domain/session.ts'
import { sessionEntry } from '../domain/session-entry.ts'
import type { Log } from '../host/log.ts'
import type { LostAgents } from '../registration/lost-agents.ts'
import type { SessionEffects } from '../sessions/effects.ts'
import type { Provisioner } from '../sessions/provisioner.ts'
import { TOMBSTONE_MS } from '../sessions/service.ts'
import type { SessionWriter } from '../sessions/session-writer.ts'
import type { Store } from '../store/store.ts'
import type { SigningKeys } from '../tokens/keys.ts'
import type { IdleCheck } from './idle-check.ts'
import type { LiveBrokers } from './live-brokers.ts'
import { resumeEndings } from './resume-endings.ts'

export type ReaperOptions = {
  store: Store
  writer: SessionWriter
  provisioner: Provisioner
  liveBrokers: LiveBrokers
  lostAgents: LostAgents
  silence: Pick<AgentSilence, 'databaseWasAway'>
  effects: SessionEffects
  idleCheck: IdleCheck
  keys: SigningKeys
  keyRotationMs: number
  brokerId: string
  intervalMs: number
  brokerTimeoutMs: number
  log: Log
  now: () => number
  /** Milliseconds that never jump. */
  monotonic: () => number
}

const BATCH = 200
const MAX_BATCHES = 50
const HOUSEKEEPING_MS = 60_000

/**
 * The only owner of a timer over sessions: what is due gets its `tick`; what a dead broker left is adopted. Of several brokers each
 * reports itself and adopts; the rest is the leader's.
 */
export class Reaper {
  readonly #options: ReaperOptions
  #timer: NodeJS.Timeout | undefined
  #round: Promise<void> = Promise.resolve()
  #kept = Number.NEGATIVE_INFINITY
  /** When the database has answered last, by the monotonic clock, and whether it has failed since. */
  #answeredAt: number
  #isAway = false
  #leads = false
  /** Ids of the brokers that ran in the last round; undefined before the first. */
  #present: ReadonlySet<string> | undefined
  /** Who asked agents to end sandboxes may be gone, or could not write their answers. */
  #mustAskAgain = true

  constructor(options: ReaperOptions) {
    this.#options = options
    this.#answeredAt = options.monotonic()
  }

  start(): void {
    this.#timer = setInterval(() => void this.run(), this.#options.intervalMs)
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await this.#round
  }

  /** One round; rounds never overlap. */
  run(): Promise<void> {
    this.#round = this.#round.then(() =>
      this.#once().catch((thrown: unknown) => {
        const { code, details } = fromUnknown(thrown)
        this.#isAway ||= code === 'BACKEND_UNAVAILABLE' && details?.reason === undefined
        this.#options.log.error({ err: thrown }, 'a round of the reaper failed')
      }),
    )
    return this.#round
  }

  async #once(): Promise<void> {
    const { store, provisioner, liveBrokers, lostAgents, keys, brokerId, brokerTimeoutMs, keyRotationMs, log, now, monotonic } =
      this.#options
    await store.brokers.heartbeat(brokerId, process.pid, now())
    this.#answered()
    const alive = await store.brokers.alive(now() - brokerTimeoutMs)
    liveBrokers.counted(alive)
    const present = new Set(await store.brokers.present(alive))
    if (this.#present === undefined || [...this.#present].some((id) => !present.has(id))) {
      this.#mustAskAgain = true
      // What a broker that ended has changed and did not tell the agents any more comes to light where they report all that they have.
      await store.agents.wantWhole(null, now())
    }
    this.#present = present
    await provisioner.takeOver(present)
    // What another broker has withdrawn must not sign here.
    await keys.reload()
    const led = this.#leads
    this.#leads = await store.brokers.leads()
    if (!this.#leads) return
    // Which brokers the last leader has missed is not known.
    if (!led) this.#mustAskAgain = true
    await lostAgents.run()
    for (let batch = 0; batch < MAX_BATCHES; batch++) {
      const due = await store.sessions.due(now(), BATCH)
      for (const session of due) await this.#tick(session)
      if (due.length < BATCH) break
    }
    // On a full disk they wait on.
    await this.#finishEndings().catch((thrown: unknown) => log.warn({ err: thrown }, 'the last events of sessions were not stored'))
    this.#answered()
    if (monotonic() - this.#kept < HOUSEKEEPING_MS) return
    this.#kept = monotonic()
    await store.idempotency.purge(now())
    // With up to a thousand events each: small steps, so that nobody waits for one.
    while ((await store.sessions.purge(now() - TOMBSTONE_MS, 100)) === 100);
    // Last, as it fails on a full disk, where what is purged before it makes room.
    await keys.maintain(keyRotationMs)
  }

  #answered(): void {
    const { silence, monotonic } = this.#options
    const at = monotonic()
    if (this.#isAway) {
      silence.databaseWasAway(this.#answeredAt, at)
      this.#mustAskAgain = true
    }
    this.#isAway = false
    this.#answeredAt = at
  }

  async #finishEndings(): Promise<void> {
    const { store, now } = this.#options
    if (this.#mustAskAgain) await resumeEndings(this.#options)
    this.#mustAskAgain = false
    await store.endings.finishDue(now())
  }

  async #tick(session: LiveSession): Promise<void> {
    const { store, writer, idleCheck, now } = this.#options
    const agent = await store.agents.byId(session.agentId)
    const suspend: readonly SuspendMode[] = agent?.provider.suspend ?? ['freeze', 'stop']
    if (agent !== undefined && !(await idleCheck.permits(session, { type: 'tick', suspend }, agent))) return
    const audit = (after: Session) => (conditionOf(after) === conditionOf(session) ? [] : [entryOf(after, now())])
    await writer.change(session, { type: 'tick', suspend }, { audit, forgetIdempotency: session.state === 'provisioning' })
  }
}

/** What the audit log tells apart [C-53]: `idle` is for information only; a freeze that becomes a stop ends what ran. */
const conditionOf = (session: Session): string => {
  if (session.state === 'idle') return 'active'
  return session.state === 'suspended' ? session.mode : session.state
}

function entryOf(after: Session, ts: number) {
  const event = after.state === 'failed' ? 'sandbox.session.fail' : isLive(after) ? 'sandbox.session.suspend' : 'sandbox.session.end'
  return sessionEntry(event, systemOrigin(after.tenant), after, { ts, code: isLive(after) ? null : after.reason })
}
