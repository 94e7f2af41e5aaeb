import { setTimeout as delay } from 'node:timers/promises'
import { abortAfter } from '@boxoffice/kit/abort-after'
import { withTimeout } from '@boxoffice/kit/with-timeout'
import { BoxofficeError, type CreateSandboxRequest, ERRORS, type ErrorCode, fromUnknown, type MountSet } from '@boxoffice/protocol'
import { type AgentClient, AgentUnreachable } from '../agents/agent-client.ts'
import { demandOf } from '../agents/load.ts'
import type { Placement } from '../agents/placement.ts'
import { systemOrigin } from '../domain/audit-entry.ts'
import { workspaceIdOf } from '../domain/scope.ts'
import {
  egressOf,
  type FailedSession,
  isPlaced,
  type LiveSession,
  type PlacedSession,
  type ProvisioningSession,
  type Session,
} from '../domain/session.ts'
import { sessionEntry } from '../domain/session-entry.ts'
import type { Log } from '../host/log.ts'
import { DatabaseAway } from '../store/database-away.ts'
import type { AgentRecord, Store } from '../store/store.ts'
import { type SessionEffects, sessionEndOf } from './effects.ts'
import type { Change, SessionWriter } from './session-writer.ts'

export type ProvisionerOptions = {
  store: Store
  writer: SessionWriter
  effects: SessionEffects
  placement: Placement
  client: AgentClient
  log: Log
  now: () => number
  brokerId: string
}

/** How long a session that was taken over waits for its agent to report again, before it fails. */
const AGENT_RETURNS_WITHIN_MS = 10_000
const AGENT_POLL_MS = 100
const DATABASE_POLL_MS = 500

/** `superseded`: another broker took over while this one was away, and its result was refused [C-24]. */
export type Provisioned = 'saved' | 'superseded'

/** The agent was still at it when the time of the profile was over; it is there, so nobody else is asked. */
class NotInTime extends BoxofficeError {
  constructor(cause: unknown) {
    super('BACKEND_UNAVAILABLE', NOT_IN_TIME, { cause })
  }
}
const NOT_IN_TIME = 'it was not ready within the provision_timeout_seconds of its profile'

/** Makes sandboxes for `provisioning` rows, independent of the requests that wait for them. */
export class Provisioner {
  readonly #options: ProvisionerOptions
  readonly #inFlight = new Map<string, { done: Promise<Provisioned>; abort: AbortController }>()
  /** Sessions whose rows are being written. */
  readonly #announced = new Set<string>()
  #closing = false

  constructor(options: ProvisionerOptions) {
    this.#options = options
  }

  /**
   * Writes the row of a new session and, when `isWritten` says so, starts. The row can be read before `write` resolves here, so
   * `takeOver` is told of its id first: it would find a row of this broker that nobody works on.
   */
  async create<T>(session: ProvisioningSession, write: () => Promise<T>, isWritten: (result: T) => boolean): Promise<T> {
    this.#announced.add(session.id)
    try {
      const result = await write()
      if (isWritten(result)) this.begin(session)
      return result
    } finally {
      this.#announced.delete(session.id)
    }
  }

  /** Starts; the row that is saved at the end is the result. For `patience` ms it waits for an agent when none can be reached. */
  begin(session: ProvisioningSession, patience = 0): void {
    const abort = new AbortController()
    const done = this.#run(session, abort.signal, performance.now() + patience)
      .catch((thrown: unknown): Provisioned => {
        this.#options.log.error({ session_id: session.id, err: thrown }, 'provisioning failed unexpectedly')
        return 'saved'
      })
      .finally(() => this.#inFlight.delete(session.id))
    this.#inFlight.set(session.id, { done, abort })
  }

  /** Resolves when this broker has finished with the session; undefined when it does not make it. */
  done(sessionId: string): Promise<Provisioned> | undefined {
    return this.#inFlight.get(sessionId)?.done
  }

  /** Stops waiting for the agent; the session has been released or the broker closes. */
  cancel(sessionId: string): void {
    this.#inFlight.get(sessionId)?.abort.abort()
  }

  /** Rows whose broker is gone are adopted under a new fencing number [C-24, 4-94]; ours that nobody works on, too. */
  async takeOver(present: ReadonlySet<string>): Promise<void> {
    const { store, writer, brokerId, now } = this.#options
    for (const session of await store.sessions.provisioning()) {
      const ours = session.brokerId === brokerId
      if (ours ? this.#isOurs(session.id) : present.has(session.brokerId)) continue
      // Out of time: it ends with the tick that it is due.
      if (now() >= session.provisionDeadline) continue
      const change = await writer.change(
        session,
        { type: 'taken_over', fence: session.fence, brokerId, agentId: session.agentId },
        { audit: () => [sessionEntry('sandbox.session.takeover', systemOrigin(session.tenant), session, { ts: now() })] },
      )
      if (change.refused === undefined && change.session.state === 'provisioning') this.begin(change.session, AGENT_RETURNS_WITHIN_MS)
    }
  }

  #isOurs(sessionId: string): boolean {
    return this.#announced.has(sessionId) || this.#inFlight.has(sessionId)
  }

  /**
   * Has a live session's sandbox made anew with other mounts, under its id [0-34, C-23]. A refusal of the agent changes nothing, and
   * of several at once the agent makes each after the other. Undefined when the session has ended in the meantime.
   */
  async remake(session: PlacedSession, mounts: MountSet): Promise<PlacedSession | undefined> {
    const { store, client, writer, log, now } = this.#options
    const agent = await store.agents.byId(session.agentId)
    if (agent === undefined) throw new AgentUnreachable(session.agentId)
    using within = abortAfter(session.profile.provision_timeout_seconds * 1000)
    const { generation: incarnation } = await client.create(agent, session.id, requestFor({ ...session, mounts }), within.signal)
    log.info(
      { session_id: session.id, sandbox_id: session.sandboxId, generation: incarnation },
      'a sandbox was made anew, with other mounts',
    )
    const change = await writer.change(
      session,
      { type: 'new_incarnation', incarnation, mounts },
      { audit: (after) => [{ ...entryOf(after, now()), event: 'sandbox.session.remake' }] },
    )
    return change.refused === undefined && isPlaced(change.session) ? change.session : undefined
  }

  /** Resolves when nothing is in flight, also what made sandboxes for sessions that have ended meanwhile. */
  async settled(): Promise<void> {
    while (this.#inFlight.size > 0) await Promise.allSettled([...this.#inFlight.values()].map(({ done }) => done))
  }

  /** Waits for what is in flight, at most `ms`; what is left is reconciled by the next broker. */
  async close(ms: number): Promise<void> {
    const all = Promise.allSettled([...this.#inFlight.values()].map(({ done }) => done))
    await withTimeout(all, ms, () => undefined)
    this.#closing = true
    for (const { abort } of this.#inFlight.values()) abort.abort()
    await all
  }

  /** At the agent of the row, and if that cannot be reached or has no room at others; then saves what came of it. */
  async #run(first: ProvisioningSession, cancelled: AbortSignal, until: number): Promise<Provisioned> {
    const unreachable = new Set<string>()
    const full = new Map<string, BoxofficeError>()
    let session = first
    for (;;) {
      try {
        return await this.#make(session, cancelled)
      } catch (thrown) {
        if (this.#closing) return 'saved' // the row stays `provisioning`, for the next broker to adopt
        const over = cancelled.aborted || this.#options.now() >= session.provisionDeadline
        // That is no failure of the sandbox, and the agent makes it once: what was being written is written again.
        if (thrown instanceof DatabaseAway && !over) {
          await delay(DATABASE_POLL_MS, undefined, { signal: cancelled }).catch(() => {})
          continue
        }
        if (thrown instanceof AgentUnreachable) unreachable.add(session.agentId)
        // A workspace stays where it is: elsewhere the scope would find an empty one.
        if (isFull(thrown) && !(await this.#holdsWorkspace(session))) full.set(session.agentId, thrown)
        const except = new Set([...unreachable, ...full.keys()])
        const moved = !over && except.has(session.agentId) ? await this.#move(session, except) : undefined
        const wait = moved === undefined && !over && thrown instanceof AgentUnreachable && performance.now() < until
        if (moved === undefined && !wait) {
          // Where one agent is full and the other away, to make room helps.
          const [refusal] = thrown instanceof AgentUnreachable ? full.values() : []
          return this.#failed(session, refusal ?? fromUnknown(thrown))
        }
        if (wait) await delay(AGENT_POLL_MS, undefined, { signal: cancelled }).catch(() => {})
        if (wait) unreachable.clear()
        session = moved ?? session
      }
    }
  }

  async #make(session: ProvisioningSession, cancelled: AbortSignal): Promise<Provisioned> {
    const { store, client, writer, now } = this.#options
    const { fence } = session
    const agent = await this.#agent(session, cancelled)
    const workspaceId = workspaceIdOf(session.tenant, session.scope)
    const request = {
      ...requestFor(session),
      kept_sessions: await store.sessions.keptOf(session.tenant, session.scope),
      discard_workspace: (await store.workspaces.unwantedOn(agent.id)).includes(workspaceId),
    }
    using deadline = abortAfter(Math.max(1, session.provisionDeadline - now()))
    const within = AbortSignal.any([cancelled, deadline.signal])
    const record = await client.create(agent, session.id, request, within).catch((thrown: unknown) => {
      throw deadline.signal.aborted ? new NotInTime(thrown) : thrown
    })
    if (request.discard_workspace) await store.workspaces.removed(workspaceId, agent.id)
    const placed = {
      agentId: agent.id,
      sandboxId: record.sandbox_id,
      provider: record.provider,
      isolation: record.isolation,
      network: record.network ?? null,
      incarnation: record.generation,
    }
    const change = await writer.change(session, { type: 'created', fence, placed }, { audit: (after) => [entryOf(after, now())] })
    // Too late: the session has ended, or another broker made it elsewhere. The same sandbox under another fence stays.
    if (change.refused !== undefined && !(isPlaced(change.session) && change.session.sandboxId === record.sandbox_id)) {
      if (change.session.state !== 'provisioning')
        await client.destroy(agent, record.sandbox_id, { reason: sessionEndOf(change.session), keepWorkspace: false })
    }
    return outcomeOf(change, fence)
  }

  async #failed(session: ProvisioningSession, error: BoxofficeError): Promise<Provisioned> {
    const { writer, effects, log, now } = this.#options
    const { fence } = session
    log.warn({ session_id: session.id, err: error }, 'a sandbox could not be made')
    const change = await writer.change(
      session,
      {
        type: 'create_failed',
        fence,
        reason: error instanceof NotInTime ? 'provision_timeout' : `${error.code}: ${error.message}`,
        details: error.details,
      },
      { forgetIdempotency: true, audit: (after) => [entryOf(after, now(), error.code)] },
    )
    // Released in the meantime: what the agent may have made by then is nobody's.
    if (change.refused !== undefined && !isPlaced(change.session) && change.session.state !== 'provisioning')
      effects.perform(change.session, { type: 'destroy' })
    return outcomeOf(change, fence)
  }

  /** Gives the row to another agent, under a new fencing number; what the first one may have made is not kept there. */
  async #move(session: ProvisioningSession, except: ReadonlySet<string>): Promise<ProvisioningSession | undefined> {
    const { placement, writer, brokerId } = this.#options
    const { providerPreference: provider, relay, needsImage, profile } = session
    let taken: Promise<Change> | undefined
    const take = ({ id: agentId }: AgentRecord): Promise<Change> => {
      taken = writer.change(session, { type: 'taken_over', fence: session.fence, brokerId, agentId })
      return taken
    }
    await placement
      .place({ except, provider, relay, needsImage, needsEgress: profile.network === 'proxy', demand: demandOf(profile) }, take)
      .catch(() => {})
    if (taken === undefined) return undefined
    const change = await taken
    return change.refused === undefined && change.session.state === 'provisioning' ? change.session : undefined
  }

  async #holdsWorkspace({ tenant, scope, agentId }: ProvisioningSession): Promise<boolean> {
    return (await this.#options.store.workspaces.holders(workspaceIdOf(tenant, scope))).includes(agentId)
  }

  /** The agent that the row names, once it is heard. */
  async #agent(session: ProvisioningSession, cancelled: AbortSignal): Promise<AgentRecord> {
    const { store, placement } = this.#options
    const until = performance.now() + AGENT_RETURNS_WITHIN_MS
    for (;;) {
      const agent = await store.agents.byId(session.agentId)
      if (agent !== undefined && placement.isHeard(agent)) return agent
      if (performance.now() >= until || cancelled.aborted) throw new AgentUnreachable(session.agentId)
      await delay(AGENT_POLL_MS, undefined, { signal: cancelled }).catch(() => {})
    }
  }
}

const requestFor = ({ tenant, scope, profile, egress, labels, mounts }: LiveSession): CreateSandboxRequest => ({
  tenant_id: tenant,
  profile: egress === null ? profile : { ...profile, egress: egressOf({ profile, egress }) },
  labels: { ...labels },
  workspace_id: workspaceIdOf(tenant, scope),
  kept_sessions: [],
  discard_workspace: false,
  ...mounts,
})

const outcomeOf = ({ session, refused }: Change, fence: number): Provisioned =>
  refused !== undefined && session.fence !== fence ? 'superseded' : 'saved'

const entryOf = (session: Session, ts: number, code: ErrorCode | null = null) =>
  sessionEntry(code === null ? 'sandbox.session.active' : 'sandbox.session.fail', systemOrigin(session.tenant), session, {
    ts,
    code,
    outcome: code === null ? 'ok' : 'failed',
  })

const isFull = (thrown: unknown): thrown is BoxofficeError => thrown instanceof BoxofficeError && thrown.code === 'AGENT_FULL'

/** What an agent may say to the caller; anything else is a fault between broker and agent. */
const PASSED_ON: ReadonlySet<string> = new Set<ErrorCode>([
  'INVALID_REQUEST',
  'UNSUPPORTED',
  'RATE_LIMITED',
  'QUOTA_EXCEEDED',
  'AGENT_FULL',
])

/** The refusal for those who waited for a session that failed; its reason begins with the code of the failure. */
export function provisionError({ reason, reasonDetails }: Pick<FailedSession, 'reason' | 'reasonDetails'>): BoxofficeError {
  if (reason === 'provision_timeout') return provisionError({ reason: `BACKEND_UNAVAILABLE: ${NOT_IN_TIME}`, reasonDetails: null })
  const [, name = '', message = reason] = /^([A-Z_]+): (.*)$/s.exec(reason) ?? []
  const code = PASSED_ON.has(name) ? (name as ErrorCode) : 'BACKEND_UNAVAILABLE'
  return new BoxofficeError(code, `the sandbox could not be started: ${message}`, {
    ...(ERRORS[code].status === 503 ? { retryAfter: 2 } : {}),
    ...(code === name && reasonDetails !== null ? { details: { ...reasonDetails } } : {}),
  })
}
