import {
  type AgentHeartbeatRequest,
  type AgentInstructions,
  BoxofficeError,
  JOURNAL_BATCH,
  type JournalEntry,
  type RegisterAgentRequest,
  type RegisterAgentResponse,
  type SandboxReport,
  type SessionSecretsResponse,
} from '@boxoffice/protocol'
import type { Logger } from 'pino'
import type { AgentCredential, BrokerClient } from './broker-client.ts'
import type { Journal } from './journal.ts'
import { register } from './register.ts'

export type BrokerLinkOptions = {
  broker: BrokerClient
  inventory: () => RegisterAgentRequest
  /** How many sandboxes a complete report tells of. */
  count: () => number
  heartbeat: (extent: Extent, journal: JournalEntry[], ended?: readonly SandboxReport[]) => AgentHeartbeatRequest
  /** The broker has answered what it was told of sandboxes. Called before `onInstructions`. */
  onAnswered: (report: Pick<AgentHeartbeatRequest, 'sandboxes' | 'partial'>, response: AgentInstructions) => void
  journal: Journal
  /** Called before `onInstructions`, with what a registration says beyond them. */
  onRegistered: (registered: RegisterAgentResponse) => Promise<void>
  onInstructions: (instructions: AgentInstructions) => Promise<void>
  /** The broker does not take this agent, as its first response after `start` had resolved; the broker link has ended. */
  onRefused: (error: Error) => void
  log: Logger
}

/**
 * Of which sandboxes a report tells: all; those that have changed since the last one that was answered; or, to a broker that is told all
 * of them at nearly every turn, only those that cannot wait for it.
 */
export type Extent = 'all' | 'changed' | 'urgent'

/** Keeps the broker informed: registers, then reports at the pace it asks for, and at once when a sandbox is lost. */
export interface BrokerLink {
  readonly agentId: string | undefined
  /** Undefined until the agent has registered. */
  readonly credential: AgentCredential | undefined
  /** Resolves after the first try to register; rejects only if the broker does not take this agent. */
  start(): Promise<void>
  /** Reports what has changed without waiting for the next turn. */
  reportNow(): void
  /** The values of these secrets for a session that is on this agent. `BACKEND_UNAVAILABLE` while it is not registered. */
  secretsOf(sessionId: string, names: readonly string[]): Promise<SessionSecretsResponse['secrets']>
  /** Neither reports nor takes instructions any more. */
  stop(): Promise<void>
  /** After the stop: what the broker has not heard yet, and these sandboxes, which have ended with the agent. */
  sayLast(ended: readonly SandboxReport[]): Promise<void>
}

/**
 * A complete report costs both sides some time for each sandbox, about 0.1 ms. To a broker that knows no deltas it comes less often with
 * many of them: this many milliseconds for each sandbox keep the cost at a few per cent of a core.
 */
const COMPLETE_EVERY_MS_EACH = 5
/**
 * To all others it comes this often, give or take a fifth, so that agents that have started together do not keep reporting together. The
 * broker asks for one where it has reason to; at this pace 100,000 sandboxes are a hundred a second.
 */
const COMPLETE_EVERY_MS = 15 * 60_000
/** What happens within this time goes with one report; it arrives within 250 ms. */
const GATHER_MS = 150
/** A report that has failed, after one that had not, comes again after about this. */
const AGAIN_MS = 500
/** At the end of the agent: how long the broker may take to hear what is still to be told. */
const LAST_WORD_MS = 3000

export const createBrokerLink = ({
  broker,
  inventory,
  count,
  heartbeat,
  onAnswered,
  journal,
  onRegistered,
  onInstructions,
  onRefused,
  log,
}: BrokerLinkOptions): BrokerLink => {
  const closing = new AbortController()
  const { signal } = closing
  let identity: { id: string; token: string } | undefined
  let everyMs = 2000
  let urgent = false
  let lastTurn = 0
  let lastComplete = Number.NEGATIVE_INFINITY
  const completeEveryMs = COMPLETE_EVERY_MS * (0.8 + 0.4 * Math.random())
  let knowsDeltas = false
  let wantsWhole = false
  let gathering: NodeJS.Timeout | undefined
  let wake: () => void = () => {}
  const firstTry = Promise.withResolvers<void>()
  let tried = false
  let known = false
  /** The broker has pinned no key of this agent, though it could: registering again brings it. */
  let unpinned = false
  let running: Promise<void> = Promise.resolve()
  let failing = false

  const answered = (report: Pick<AgentHeartbeatRequest, 'sandboxes' | 'partial'>, response: AgentInstructions, sentAt: number): void => {
    if (!report.partial) lastComplete = sentAt
    knowsDeltas = response.deltas ?? false
    wantsWhole = response.whole ?? false
    onAnswered(report, response)
  }

  const follow = async (instructions: AgentInstructions): Promise<void> => {
    everyMs = instructions.heartbeat_seconds * 1000
    await onInstructions(instructions).catch((err: unknown) => log.error({ err }, 'what the broker asked for failed'))
  }

  /** Tells, while the broker still takes it, that the same process comes again. */
  const enroll = async (token?: string): Promise<void> => {
    const present = token === undefined ? {} : { agent_token: token }
    let sent: RegisterAgentRequest | undefined
    const request = (): RegisterAgentRequest => {
      sent = { ...inventory(), ...present }
      return sent
    }
    const registered = await register({ broker, request, onFailure: triedOnce, untilRefused: !known, log, signal })
    known = true
    identity = { id: registered.agent_id, token: registered.agent_token }
    await onRegistered(registered)
    lastTurn = performance.now()
    lastComplete = Number.NEGATIVE_INFINITY
    if (sent !== undefined) answered({ sandboxes: sent.sandboxes, partial: sent.partial ?? false }, registered, lastTurn)
    await follow(registered)
    triedOnce()
  }

  const triedOnce = (): void => {
    tried = true
    firstTry.resolve()
  }

  const report = async (agent: { id: string; token: string }, extent: Extent, within: AbortSignal): Promise<AgentInstructions> => {
    const batch = journal.batch()
    const sentAt = performance.now()
    const request = heartbeat(extent, batch)
    const instructions = await broker.heartbeat(agent, request, within)
    answered(request, instructions, sentAt)
    journal.acknowledge(instructions.journal_seq ?? 0)
    // More than one report may carry.
    if (batch.length === JOURNAL_BATCH && instructions.journal_seq !== undefined) urgent = true
    return instructions
  }

  const beat = async (agent: { id: string; token: string }, extent: Extent): Promise<void> => {
    try {
      // Not waited for: what takes long to remove must not hold up what is to be told next.
      const instructions = await report(agent, extent, signal)
      void follow(instructions)
      if (instructions.control_tokens_bound !== false) unpinned = false
      else if (!unpinned) {
        unpinned = true
        await enroll(agent.token)
      }
      if (failing) log.info('the broker hears us again')
      failing = false
    } catch (err) {
      if (err instanceof BoxofficeError && ['UNAUTHENTICATED', 'NOT_FOUND', 'FORBIDDEN'].includes(err.code)) identity = undefined
      if (!failing && !signal.aborted) log.warn({ err }, 'heartbeat failed; the broker keeps what it knows')
      // Once: of several brokers another one answers now, but all agents must not ask again and again while none does.
      if (!failing) lastTurn = performance.now() - everyMs + Math.min(everyMs, AGAIN_MS * (0.5 + Math.random()))
      failing = true
    }
  }

  /** Until the next turn, or until something cannot wait for it. */
  const pause = async (): Promise<void> => {
    if (urgent) return
    let timer: NodeJS.Timeout | undefined
    await new Promise<void>((resolve) => {
      wake = resolve
      timer = setTimeout(resolve, Math.max(0, lastTurn + everyMs - performance.now()))
    })
    clearTimeout(timer)
  }

  const reportNow = (): void => {
    urgent = true
    wake()
  }
  journal.onUrgent(() => {
    gathering ??= setTimeout(() => {
      gathering = undefined
      reportNow()
    }, GATHER_MS)
  })

  const run = async (): Promise<void> => {
    while (!signal.aborted) {
      if (identity === undefined) await enroll()
      await pause()
      if (signal.aborted) return
      const now = performance.now()
      // However much there is to tell in between, the turns keep the broker's pace.
      const early = urgent && now - lastTurn < everyMs
      const isDue = wantsWhole || now - lastComplete >= (knowsDeltas ? completeEveryMs : COMPLETE_EVERY_MS_EACH * count())
      urgent = false
      if (!early) lastTurn = now
      if (identity !== undefined) await beat(identity, !early && isDue ? 'all' : knowsDeltas ? 'changed' : 'urgent')
    }
  }

  return {
    get credential() {
      return identity
    },
    get agentId() {
      return identity?.id
    },
    async start() {
      running = run().catch((err: Error) => {
        if (signal.aborted) return firstTry.resolve()
        log.error({ err }, 'the broker link ended')
        if (tried) onRefused(err)
        else firstTry.reject(err)
      })
      await firstTry.promise
    },
    reportNow,
    async secretsOf(sessionId, names) {
      if (identity === undefined) throw new BoxofficeError('BACKEND_UNAVAILABLE', 'this agent is not registered with the broker')
      return (await broker.secrets(identity, { session_id: sessionId, names: [...names] }, signal)).secrets
    },
    async stop() {
      closing.abort()
      clearTimeout(gathering)
      wake()
      await running
    },
    async sayLast(ended) {
      // What the ends of sandboxes have made it want to tell comes with this.
      clearTimeout(gathering)
      if (identity === undefined || (journal.isEmpty && ended.length === 0)) return
      await broker
        .heartbeat(identity, heartbeat('urgent', journal.batch(), ended), AbortSignal.timeout(LAST_WORD_MS))
        .catch((err: unknown) => log.warn({ err }, 'the broker could not be told what has happened last'))
    },
  }
}
