import { randomBytes } from 'node:crypto'
import { withoutSlash } from '@boxoffice/kit/without-slash'
import { isNodeInstallId, nodeInstallId } from '@boxoffice/node-http'
import {
  type AgentChallenge,
  type AgentHeartbeatRequest,
  type AgentInstructions,
  BoxofficeError,
  fromUnknown,
  type JournalEntry,
  type Profile,
  type RegisterAgentRequest,
  type RegisterAgentResponse,
  type RelayPreference,
  type SandboxReport,
} from '@boxoffice/protocol'
import { hashKey } from '../access/principals.ts'
import type { AgentDirectory } from '../agents/agent-directory.ts'
import type { AgentSilence } from '../agents/silence.ts'
import { auditEntry, type Origin } from '../domain/audit-entry.ts'
import type { Log } from '../host/log.ts'
import { revocationOf } from '../sessions/effects.ts'
import { grantRevocationsOf } from '../sessions/grants.ts'
import type { AgentNews, AgentRecord, Store } from '../store/store.ts'
import type { TokenIssuer } from '../tokens/issuer.ts'
import type { SigningKeys } from '../tokens/keys.ts'
import { type Admission, type Enrollment, notEnrolled, sameSecret } from './enrollment.ts'
import type { InstallPresence } from './install-presence.ts'
import type { Inventory } from './inventory.ts'
import type { JournalIntake } from './journal-intake.ts'
import type { AgentProofs } from './proof.ts'
import type { ReportPace } from './report-pace.ts'

export type RegistryOptions = {
  store: Store
  inventory: Inventory
  journal: JournalIntake
  keys: SigningKeys
  issuer: TokenIssuer
  enrollment: Enrollment
  /** Whether others than this machine's users can reach the broker. */
  exposed: boolean
  profiles: ReadonlyMap<string, Profile>
  tokenTtlSeconds: number
  pace: Pick<ReportPace, 'seconds'>
  silence: AgentSilence
  directory: AgentDirectory
  proofs: AgentProofs
  presence: InstallPresence
  log: Log
  now: () => number
}

/** A drift above this is reported at registration [C-48]. */
const DRIFT_WARNING_MS = 5000
/** Revocations of this long before an agent's last report are repeated, so that none falls between two reports. */
const REVOCATION_OVERLAP_MS = 15_000
/** For so long after a report the agent is as this broker has it, unless the next report finds another registration. */
const KNOWN_MS = 30_000
/** A whole report that comes within this time of the wish for it may have been made before it. */
const REPORT_UNDER_WAY_MS = 2000
/** How long after one agent the next one is asked for a whole report: it costs some time for each sandbox, and all may be wanted at once. */
const WHOLE_EVERY_MS = 50
/** How old the signing keys may be that an agent is told with the response to its report. */
const KEYS_AGE_MS = 250

/** Agents: who they are, whether they are there, and what they are told [C-50]. */
export class AgentRegistry {
  readonly #options: RegistryOptions
  /** Agents as they reported here last. */
  readonly #known = new Map<string, AgentRecord>()
  /** In ms of the monotonic clock. */
  #nextWholeAt = 0

  constructor(options: RegistryOptions) {
    this.#options = options
  }

  /** 401 unless the token is that of this agent's latest registration, or of the one by which it reported here a moment ago. */
  async requireAgent(id: string, token: string): Promise<AgentRecord> {
    const { store, silence } = this.#options
    const known = this.#known.get(id)
    if (known !== undefined && silence.ms(known) < KNOWN_MS && sameSecret(hashKey(token), known.tokenHash)) return known
    const agent = await store.agents.byId(id)
    if (agent === undefined || !sameSecret(hashKey(token), agent.tokenHash)) throw unknownAgent()
    return agent
  }

  /** What the next registration of whoever holds an enroll token has to sign. */
  challenge(): Promise<AgentChallenge> {
    return this.#options.proofs.challenge()
  }

  /**
   * 401 unless the caller holds an enroll token, 403 for one that was good once, and when the install has registered with another key
   * before. Gives the agent a credential of its own, once per registration.
   */
  async register(enrollToken: string, request: RegisterAgentRequest, origin: Origin): Promise<RegisterAgentResponse> {
    const { store, keys, issuer, enrollment, proofs, presence, silence, directory, log, now, tokenTtlSeconds } = this.#options
    const admission = await enrollment.admit(enrollToken)
    requireOwnInstall(request.install_id, admission)
    const { enrollTokenId, node } = admission
    const publicKey = await proofs.keyOf(request)
    // Without one nothing would say that it is the install that has spent the token which comes again.
    if ((enrollTokenId !== null || node !== undefined) && publicKey === null)
      throw new BoxofficeError('FORBIDDEN', 'this enroll token is for agents that have a key; update the agent')
    const agentToken = `bxa_${randomBytes(32).toString('base64url')}`
    const drift = Date.parse(request.clock) - now()
    const agent: AgentRecord = {
      id: `agt_${crypto.randomUUID()}`,
      installId: request.install_id,
      publicKey,
      enrollTokenId,
      instanceId: request.instance_id,
      tokenHash: hashKey(agentToken),
      publicUrl: withoutSlash(request.public_url),
      controlUrl: withoutSlash(request.control_url),
      dataplaneUrl: withoutSlash(request.dataplane_url ?? request.public_url),
      previewDomain: request.preview_domain ?? null,
      relay: this.#relayOf(request),
      provider: request.provider,
      capacity: request.capacity ?? null,
      version: request.version,
      clockDriftMs: Number.isFinite(drift) ? Math.round(drift) : 0,
      registeredAt: now(),
      lastSeenAt: now(),
    }
    const present = await store.agents.byInstall(agent.installId)
    // The cluster says who the node's agent is, so another key is that of a new data directory there.
    const takesOver = node !== undefined
    if (present !== undefined && !isSame(present, agent, request.agent_token, takesOver)) await presence.requireGone(present, agent)
    const entry = auditEntry('agent.register', { ...origin, caller: agent.installId }, { ts: now(), data: enrolledBy(admission) })
    const registered = await store.agents.register(agent, present, [entry], takesOver)
    if (registered.outcome === 'another_key') {
      log.warn({ install_id: agent.installId, ip: origin.ip }, 'a registration with another key than that of the install was refused')
      throw new BoxofficeError(
        'FORBIDDEN',
        'this install has registered with another key; if its key was lost, an operator runs: boxoffice agents rekey <agent id>',
      )
    }
    if (registered.outcome === 'changed') throw new BoxofficeError('BINDING_CONFLICT', 'this install has just registered; register again')
    if (registered.outcome !== 'registered') throw notEnrolled(registered.outcome)
    agent.id = registered.id
    silence.reported(agent.id, agent.lastSeenAt)
    directory.forget()
    if (Math.abs(agent.clockDriftMs) > DRIFT_WARNING_MS)
      log.warn({ agent_id: agent.id, clock_drift_ms: agent.clockDriftMs }, "an agent's clock differs; it judges tokens by this broker's")
    log.info({ agent_id: agent.id, instance_id: agent.instanceId, provider: agent.provider.name }, 'agent registered')
    return {
      ...(await this.#instructions(agent, {
        sandboxes: request.sandboxes,
        complete: !request.partial,
        since: now() - (tokenTtlSeconds + 60) * 1000,
        news: { ended: true, narrowed: true, unwanted: true, wholeWanted: false },
      })),
      agent_id: agent.id,
      agent_token: agentToken,
      issuer: issuer.issuer,
      jwks: keys.jwks,
      clock_drift_ms: agent.clockDriftMs,
    }
  }

  /** What is not isolated must not be reached by others, whose way to it the relay would be. */
  #relayOf({ relay, provider }: RegisterAgentRequest): RelayPreference {
    if (!this.#options.exposed || provider.isolation !== 'none' || relay === 'never') return relay
    this.#options.log.warn({ relay }, 'an agent with isolation "none" is not relayed: this broker can be reached by others')
    return 'never'
  }

  /** 401 unless the token is that of this agent's latest registration. */
  async heartbeat(id: string, token: string, request: AgentHeartbeatRequest): Promise<AgentInstructions> {
    const { store, silence, directory, now } = this.#options
    const { instance_id: instanceId, provider, capacity = null, sandboxes, partial, journal } = request
    // Whether the token is the agent's, the store says.
    const before = this.#known.get(id) ?? (await store.agents.byId(id))
    if (before === undefined) throw unknownAgent()
    const seenAt = now()
    // Whole milliseconds, as the store has them.
    const since = Math.floor(seenAt - silence.ms(before) - REVOCATION_OVERLAP_MS)
    const wantedBefore = seenAt - REPORT_UNDER_WAY_MS
    const seen = { id, tokenHash: hashKey(token), instanceId, provider, capacity, now: seenAt, since, isWhole: !partial, wantedBefore }
    const news = await store.agents.seen(seen)
    if (news === undefined) {
      this.#known.delete(id)
      throw unknownAgent()
    }
    const { agent } = news
    this.#known.set(id, agent)
    silence.reported(id, seenAt)
    directory.reported(agent)
    // First: what happened in a sandbox comes before what its report makes of the session.
    const accepted = journal === undefined || journal.length === 0 ? {} : await this.#accept(agent, journal)
    const instructions = await this.#instructions(agent, { sandboxes, complete: !partial, since, news })
    return { ...instructions, ...accepted }
  }

  /** Without a place when the disk is full: the agent keeps its entries, and hears what to refuse all the same. */
  async #accept(agent: AgentRecord, entries: readonly JournalEntry[]): Promise<{ journal_seq?: number }> {
    try {
      return { journal_seq: await this.#options.journal.accept(agent, entries) }
    } catch (thrown) {
      if (fromUnknown(thrown).details?.reason !== 'disk_full') throw thrown
      this.#options.log.warn({ agent_id: agent.id, err: thrown }, 'the journal of an agent could not be stored yet')
      return {}
    }
  }

  /** Forgets the key of an agent, so that its next registration brings another one. False when there is no such agent. */
  rekey(id: string, origin: Origin): Promise<boolean> {
    const { store, now } = this.#options
    return store.agents.forgetKey(id, [auditEntry('agent.rekey', origin, { ts: now(), data: { agent_id: id } })])
  }

  list(): Promise<AgentRecord[]> {
    return this.#options.store.agents.list()
  }

  #mayAskForWhole(): boolean {
    const now = performance.now()
    if (now < this.#nextWholeAt) return false
    this.#nextWholeAt = now + WHOLE_EVERY_MS
    return true
  }

  async #instructions(agent: AgentRecord, { sandboxes, complete, since, news }: Report): Promise<AgentInstructions> {
    const { store, inventory, keys, issuer, profiles, pace, tokenTtlSeconds, now } = this.#options
    const decisions = await inventory.reconcile(agent, sandboxes, complete)
    // A session that has ended since the news was read is in none; where there is something to destroy, its decision says so.
    const hasEnded = news.ended || decisions.some(({ action }) => action === 'destroy')
    const ended = hasEnded ? await store.agentSessions.endedOn(agent.id, since) : []
    const narrowed = news.narrowed ? await store.grants.narrowedOn(agent.id, Math.floor(since / 1000)) : []
    if (news.unwanted) inventory.removeWorkspaces(agent)
    await keys.reloadAfter(KEYS_AGE_MS)
    return {
      decisions,
      revocations: { ...revocationOf(ended, tokenTtlSeconds), grants: grantRevocationsOf(narrowed, tokenTtlSeconds) },
      pools: agent.provider.reserved === undefined ? [...profiles.values()].filter((profile) => profile.pool_size > 0) : [],
      heartbeat_seconds: pace.seconds(),
      deltas: true,
      ...(news.wholeWanted && this.#mayAskForWhole() ? { whole: true } : {}),
      broker_time_ms: now(),
      issuer: issuer.issuer,
      jwks: keys.jwks,
      control_tokens_bound: agent.publicKey !== null,
    }
  }
}

/** `since`: from when on the agent has to hear what was withdrawn. */
type Report = { sandboxes: SandboxReport[]; complete: boolean; since: number; news: Omit<AgentNews, 'agent'> }

/**
 * Whether it is the present instance that comes again, or one that has nothing to take over: another key than the pinned one is refused
 * by the store. A key alone may be a copy's; the token is in the memory of one process.
 */
function isSame(present: AgentRecord, newcomer: AgentRecord, agentToken: string | undefined, takesOver: boolean): boolean {
  if (agentToken !== undefined && sameSecret(hashKey(agentToken), present.tokenHash)) return true
  if (present.publicKey === null) return false
  if (takesOver) return present.publicKey === newcomer.publicKey && present.instanceId === newcomer.instanceId
  return present.publicKey !== newcomer.publicKey || present.instanceId === newcomer.instanceId
}

/** The install of a node is for who the cluster says is its agent, and for nobody else. */
function requireOwnInstall(installId: string, { node }: Admission): void {
  if (node === undefined) {
    if (!isNodeInstallId(installId)) return
    throw new BoxofficeError(
      'FORBIDDEN',
      'this install is of a Kubernetes node: its agent registers with the token of its service account',
      {
        details: { reason: 'node_install' },
      },
    )
  }
  if (installId !== nodeInstallId(node.node))
    throw new BoxofficeError(
      'FORBIDDEN',
      `the token is of an agent on the node ${node.node}, and this agent says that it is on another one`,
      {
        details: { reason: 'node_mismatch' },
      },
    )
}

const enrolledBy = ({ enrollTokenId, node }: Admission): Record<string, string> | null => {
  if (node !== undefined) return { service_account: node.account, node: node.node }
  return enrollTokenId === null ? null : { enroll_token_id: enrollTokenId }
}

const unknownAgent = (): BoxofficeError => new BoxofficeError('UNAUTHENTICATED', 'the agent token is not valid any more; register again')
