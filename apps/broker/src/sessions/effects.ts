import { KeyedQueue } from '@boxoffice/kit/keyed-queue'
import { retry } from '@boxoffice/kit/retry'
import { withTimeout } from '@boxoffice/kit/with-timeout'
import { BoxofficeError, type Revocations, type SessionEnd } from '@boxoffice/protocol'
import type { AgentClient } from '../agents/agent-client.ts'
import type { SessionEffect } from '../domain/lifecycle.ts'
import { workspaceIdOf } from '../domain/scope.ts'
import {
  type EndedSession,
  egressOf,
  isLive,
  isPlaced,
  type PlacedSession,
  placedOf,
  type Session,
  type SuspendMode,
} from '../domain/session.ts'
import type { Log } from '../host/log.ts'
import type { AgentRecord, Store } from '../store/store.ts'

/** Waits between attempts. After the last, the agent's next report brings it up again: the broker then answers `destroy`. */
const RETRY_AFTER_MS = [500, 2000, 8000]

export type EffectsOptions = { store: Store; client: AgentClient; log: Log; tokenTtlSeconds: number; now: () => number }

/** Ends a session that cannot be suspended. */
export type CannotSuspend = (session: Session) => Promise<unknown>

/** Carries out at agents what a saved change asks for, in the background; whoever changed the session does not wait. */
export class SessionEffects {
  readonly #options: EffectsOptions
  readonly #running = new Set<Promise<void>>()
  readonly #removing = new Set<string>()
  /** What ends sandboxes whose workspaces stay, by workspace. */
  readonly #freeing = new Map<string, Promise<void>>()
  /** What ends sandboxes, by session. */
  readonly #ending = new Map<string, Promise<void>>()
  /** Suspends and resumes of a session, one at a time: on two connections a resume could reach the agent before the suspend that it follows. */
  readonly #suspensions = new KeyedQueue()
  readonly #stop = new AbortController()

  constructor(options: EffectsOptions) {
    this.#options = options
  }

  /** `cannotSuspend` is called when the sandbox turns out not to be suspendable, so that its session can end [contract 2.10]. */
  perform(session: Session, effect: SessionEffect, cannotSuspend: CannotSuspend = async () => {}): void {
    const { store, log, now } = this.#options
    const work = this.#retrying(() => this.#attempt(session, effect))
      .catch(async (thrown: unknown) => {
        if (effect.type === 'suspend' && thrown instanceof BoxofficeError && thrown.code === 'UNSUPPORTED') await cannotSuspend(session)
        else {
          log.warn(
            { session_id: session.id, effect: effect.type, err: thrown },
            'an effect at the agent failed; its next whole report repeats it',
          )
          await store.agents.wantWhole(session.agentId, now())
        }
      })
      .catch((err: unknown) => log.warn({ session_id: session.id, err }, 'a whole report could not be asked for; one comes within minutes'))
      .finally(() => {
        this.#running.delete(work)
        if (this.#ending.get(session.id) === work) this.#ending.delete(session.id)
      })
    this.#running.add(work)
    if (effect.type === 'destroy') this.#ending.set(session.id, work)
    if (effect.type === 'destroy' && (session.profile.persistent || keeps(session)))
      this.#free(workspaceIdOf(session.tenant, session.scope), work)
  }

  /** Waits until no sandbox that is being ended has the workspace; false when that takes longer than until `deadline` (monotonic). */
  async workspaceIsFree(workspaceId: string, deadline: number): Promise<boolean> {
    const freeing = this.#freeing.get(workspaceId)
    if (freeing === undefined) return true
    const free = freeing.then(() => true)
    return await withTimeout(free, deadline - performance.now(), () => false)
  }

  /** Removes, in the background, the workspaces on the agent that nobody wants any more. What fails is tried again with its next report. */
  removeWorkspaces(agent: AgentRecord): void {
    if (this.#removing.has(agent.id)) return
    this.#removing.add(agent.id)
    const work = this.#removeWorkspaces(agent)
      .catch((thrown: unknown) => this.#options.log.warn({ agent_id: agent.id, err: thrown }, 'a workspace could not be removed yet'))
      .finally(() => {
        this.#removing.delete(agent.id)
        this.#running.delete(work)
      })
    this.#running.add(work)
  }

  /** Tells an agent, in the background, what to refuse from now on; what it misses comes with the answer to its next report. */
  push(agentId: string, revocations: Revocations): void {
    const { store, client, log } = this.#options
    const work = this.#retrying(async () => {
      const agent = await store.agents.byId(agentId)
      if (agent !== undefined) await client.revoke(agent, revocations)
    })
      .catch((thrown: unknown) =>
        log.warn({ agent_id: agentId, err: thrown }, 'revocations could not be pushed; the next report repeats them'),
      )
      .finally(() => this.#running.delete(work))
    this.#running.add(work)
  }

  /**
   * Suspends a sandbox now, in its turn; a stop ends what runs, a freeze of one in use is refused. The revision is the one that the
   * session has afterwards, so that a resume from before cannot wake it.
   */
  async suspend(agent: AgentRecord, { id, sandboxId, revision }: PlacedSession, mode: SuspendMode): Promise<void> {
    const order = { mode, force: true, revision: revision + 1 }
    await this.#suspensions.run(id, () => this.#options.client.suspend(agent, sandboxId, order))
  }

  /** Tells an agent where programs of a session may connect to, if the session says so itself. Gives the revision of what holds then. */
  async setEgress(agent: AgentRecord, session: PlacedSession): Promise<number> {
    const { client, store, now } = this.#options
    if (session.egress === null) return 0
    const order = { policy: egressOf(session), revision: session.egress.revision }
    try {
      return await client.setEgress(agent, session.sandboxId, order)
    } catch (thrown) {
      // Its report says that it has not heard of it, and it is told again.
      await store.agents.wantWhole(agent.id, now())
      throw thrown
    }
  }

  /** Resolves when the sandbox of a session that has just ended is gone, or could not be ended now. */
  async ended(sessionId: string): Promise<void> {
    await this.#ending.get(sessionId)
  }

  /** Resolves when nothing is in flight. */
  async settled(): Promise<void> {
    while (this.#running.size > 0) await Promise.allSettled(this.#running)
  }

  async close(): Promise<void> {
    this.#stop.abort(new Error('the broker is stopping'))
    await this.settled()
  }

  #free(workspaceId: string, work: Promise<void>): void {
    const freeing = Promise.all([this.#freeing.get(workspaceId), work]).then(() => {
      if (this.#freeing.get(workspaceId) === freeing) this.#freeing.delete(workspaceId)
    })
    this.#freeing.set(workspaceId, freeing)
  }

  async #attempt(session: Session, effect: SessionEffect): Promise<void> {
    const { client, store, tokenTtlSeconds } = this.#options
    const agent = await store.agents.byId(session.agentId)
    if (agent === undefined) return
    const placed = placedOf(session)
    switch (effect.type) {
      case 'destroy':
        return this.#destroy(agent, session, placed?.sandboxId ?? null)
      case 'revoke':
        return isLive(session) ? undefined : client.revoke(agent, revocationOf([session], tokenTtlSeconds))
      case 'tell_egress': {
        const current = await store.sessions.byId(session.id)
        if (current !== undefined && isPlaced(current)) await this.setEgress(agent, current)
        return
      }
      case 'suspend':
      case 'resume':
        return placed === null ? undefined : this.#suspensions.run(session.id, () => this.#suspendOrResume(agent, session.id, effect))
    }
  }

  /** What was wanted when the effect began may have been overtaken, also by another broker: the row says what holds. */
  async #suspendOrResume(agent: AgentRecord, id: string, effect: SessionEffect): Promise<void> {
    const { client, store, log } = this.#options
    const session = await store.sessions.byId(id)
    if (session === undefined || !isPlaced(session)) return
    const mode = session.state === 'suspended' ? session.mode : null
    const { sandboxId, revision } = session
    // Another broker may change it before the order arrives: the agent tells by the revision which of both orders is the later one.
    let overtakenBy: number | undefined
    if (effect.type === 'suspend' && effect.mode === mode) overtakenBy = await client.suspend(agent, sandboxId, { mode, revision })
    if (effect.type === 'resume' && mode === null) overtakenBy = await client.resume(agent, sandboxId, { revision })
    if (overtakenBy === undefined || !(await store.sessions.catchUp(id, overtakenBy))) return
    log.warn({ session_id: id, revision, agent_revision: overtakenBy }, 'the database is behind what its agent was told; it was put back')
    await this.#suspendOrResume(agent, id, effect)
  }

  async #destroy(agent: AgentRecord, session: Session, sandboxId: string | null): Promise<void> {
    const { client, store } = this.#options
    const keep = keeps(session) && keeps(await store.sessions.byId(session.id)) // forgotten in the meantime, perhaps
    const order = { reason: sessionEndOf(session), keepWorkspace: keep }
    if (sandboxId !== null) {
      const untold = await client.destroy(agent, sandboxId, order)
      await store.endings.answered(session.id, untold && { instanceId: untold.instance_id, seq: untold.journal_seq })
    }
    // It ended before the broker learned the sandbox's id.
    else
      for (const sandbox of await client.list(agent))
        if (sandbox.session_id === session.id) await client.destroy(agent, sandbox.sandbox_id, order)
    if (!keep) this.removeWorkspaces(agent)
  }

  async #removeWorkspaces(agent: AgentRecord): Promise<void> {
    const { store, client } = this.#options
    for (const workspaceId of await store.workspaces.unwantedOn(agent.id)) {
      // A session may have come to want it while those before it were removed.
      if (!(await store.workspaces.unwantedOn(agent.id)).includes(workspaceId)) continue
      await client.removeWorkspace(agent, workspaceId)
      await store.workspaces.removed(workspaceId, agent.id)
    }
  }

  #retrying(attempt: () => Promise<void>): Promise<void> {
    return retry(attempt, {
      waitMs: (thrown, failures) => (thrown instanceof BoxofficeError && thrown.retryable ? RETRY_AFTER_MS[failures - 1] : undefined),
      signal: this.#stop.signal,
    })
  }
}

const keeps = (session: Session | undefined): boolean => session !== undefined && !isLive(session) && session.keepWorkspace

/** Why it is over, as its agent is told; one that lives on elsewhere has failed here. */
export const sessionEndOf = (session: Session): SessionEnd => (session.state === 'terminated' ? session.reason : 'failed')

/** What agents must refuse, for as long as a token of the session could still be in date [C-30]. */
export function revocationOf(sessions: readonly EndedSession[], tokenTtlSeconds: number): Revocations {
  return {
    sessions: sessions.map((session) => ({
      session_id: session.id,
      reason: sessionEndOf(session),
      until: Math.ceil(session.endedAt / 1000) + tokenTtlSeconds + 60,
    })),
    tokens: [],
  }
}
