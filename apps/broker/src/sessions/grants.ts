import type { Profile, Revocations } from '@boxoffice/protocol'
import { CAPABILITIES } from '@boxoffice/protocol'
import type { Decision } from '../access/authorizer.ts'
import type { Identity } from '../access/principals.ts'
import {
  type Capabilities,
  intersect,
  isWithin,
  type RequestedCapabilities,
  requireSome,
  unite,
  widest,
  withoutNamed,
} from '../domain/capabilities.ts'
import type { LiveSession } from '../domain/session.ts'
import type { GrantRecord } from '../store/session-store.ts'
import type { Store } from '../store/store.ts'
import type { SessionEffects } from './effects.ts'

export type GrantsOptions = {
  store: Store
  effects: SessionEffects
  /** As they are configured now; a session keeps its own copy. */
  profiles: ReadonlyMap<string, Profile>
  tokenTtlSeconds: number
  now: () => number
}

/** What a token is issued with. `record` is to be saved with it; `narrows`: policy allows less than earlier tokens of the actor carry. */
export type Issuance = {
  actor: string
  capabilities: Capabilities
  /** Unix seconds; earlier tokens are held to what policy allows now. */
  notBefore: number
  record: GrantRecord | null
  narrows: boolean
}

export type Asked = { principal: Identity; actor: string; decision: Decision }

/**
 * Who may do what in a session. The grant of an actor is the widest it has asked for, within policy; a token carries what was asked
 * for with it, so that asking for less takes nothing from other tokens [4-75, C-57]. Who made the session and has no record may
 * do all that policy allows, so that an ordinary `ensure` neither reads nor writes one.
 */
export class Grants {
  readonly #options: GrantsOptions

  constructor(options: GrantsOptions) {
    this.#options = options
  }

  /** 403 when nothing of what is asked for could be granted in a session of this profile. */
  requirePossible(requested: RequestedCapabilities, profile: Profile, { principal, decision }: Omit<Asked, 'actor'>): void {
    requireSome(requested, intersect(this.#policy(profile, decision), keyAllows(principal)))
  }

  /**
   * The grant that a session is made with; null where that is everything. Saved with the session, it is there before another
   * request of the same actor, which may ask for more, can come to the session.
   */
  first(session: LiveSession, { principal, actor, decision }: Asked, { capabilities }: RequestedCapabilities): GrantRecord | null {
    if (capabilities === null) return null
    const carried = this.#policy(session.profile, decision)
    return { ...this.#unrecorded(session, actor, principal.id), capabilities, carried }
  }

  /** A token with what is asked for now; the actor's grant covers it from now on. `isNew`: no token of the session is out yet. */
  async negotiate(session: LiveSession, asked: Asked, requested: RequestedCapabilities, isNew: boolean): Promise<Issuance> {
    const policy = this.#policy(session.profile, asked.decision)
    requireSome(requested, intersect(policy, keyAllows(asked.principal)))
    return this.#evaluate(session, asked, policy, { asks: requested.capabilities, isNew })
  }

  /**
   * A token with what of `atMost` the actor's grant has, evaluated anew; null is all of it. Never wider than the widest that the actor
   * has asked for: what is outside is left out, not refused.
   */
  async renew(session: LiveSession, asked: Asked, atMost: Capabilities | null): Promise<Issuance> {
    const issuance = await this.#evaluate(session, asked, this.#policy(session.profile, asked.decision), { isNamed: atMost !== null })
    return atMost === null ? issuance : { ...issuance, capabilities: intersect(issuance.capabilities, atMost) }
  }

  /** What policy and the caller's key allow it in a session, whatever it has asked for. */
  allowed(session: LiveSession, { principal, decision }: Omit<Asked, 'actor'>): Capabilities {
    return intersect(this.#policy(session.profile, decision), keyAllows(principal))
  }

  /** For whom a caller acts that does not say: for whom it negotiated last, else itself. */
  async actorOf(session: LiveSession, principal: Identity): Promise<string> {
    const last = session.hasGrants ? await this.#options.store.grants.lastBy(session.id, principal.id) : undefined
    return last?.actor ?? principal.id
  }

  /** Tells the session's agent, in the background, that policy allows earlier tokens of the actor less from now on. */
  tell(session: LiveSession, { record, narrows }: Issuance): void {
    if (narrows && record !== null) this.#push(session, [record])
  }

  /** The principal has lost its access: whatever it holds, also for others, opens nothing any more. */
  async withdraw(session: LiveSession, principalId: string): Promise<void> {
    const { store } = this.#options
    const own = this.#unrecorded(session, principalId, principalId)
    const records = await store.grants.withdraw(own, (record) => this.#narrowed(record, []))
    this.#push(session, records)
  }

  async #evaluate(
    session: LiveSession,
    { principal, actor }: Asked,
    policy: Capabilities,
    { asks, isNew = false, isNamed = false }: { asks?: Capabilities | null; isNew?: boolean; isNamed?: boolean },
  ): Promise<Issuance> {
    const { store, now } = this.#options
    const known = session.hasGrants ? await store.grants.find(session.id, actor) : undefined
    const isMaker = actor === principal.id && actor === session.createdBy
    const before = known ?? { ...this.#unrecorded(session, actor, principal.id), ...(isNew && { carried: policy }) }
    const granted = known !== undefined || isMaker ? widest(before.capabilities, asks) : (asks ?? null)
    const narrows = !isWithin(before.carried, policy)
    const isOrdinary = known === undefined && !narrows && (isMaker || (asks === undefined && actor === principal.id))
    const isLast = !session.hasGrants || asks === undefined || (await this.actorOf(session, principal)) === actor
    let record: GrantRecord | null = null
    if (!isOrdinary || !isLast) {
      const renewed = asks === undefined ? {} : { principal: principal.id, grantedAt: now() }
      record = { ...before, ...renewed, capabilities: granted, carried: unite(before.carried, policy) }
      if (narrows) record = this.#narrowed(record, policy)
      if (known !== undefined && isLast && isSame(known, record)) record = null
    }
    const since = (record ?? known)?.narrowedAt ?? null
    const asked = asks ?? granted
    const within = asked !== null ? intersect(policy, asked) : isNamed ? policy : withoutNamed(policy)
    const capabilities = intersect(within, keyAllows(principal))
    return { actor, capabilities, notBefore: since === null ? 0 : since + 1, record, narrows }
  }

  /** What the session's profile as it was and as it is, and the authorizer, have in common. */
  #policy(profile: Profile, { capabilities }: Decision): Capabilities {
    const configured = this.#options.profiles.get(profile.name)?.capabilities ?? CAPABILITIES
    return intersect(intersect(profile.capabilities, configured), capabilities)
  }

  #unrecorded(session: LiveSession, actor: string, principal: string): GrantRecord {
    return {
      sessionId: session.id,
      actor,
      principal,
      grantedAt: this.#options.now(),
      capabilities: null,
      carried: session.profile.capabilities,
      narrowedTo: null,
      narrowedAt: null,
    }
  }

  /** A second of margin for tokens that are being issued at this moment; new ones are dated after it. */
  #narrowed(record: GrantRecord, to: Capabilities): GrantRecord {
    return { ...record, carried: to, narrowedTo: to, narrowedAt: Math.floor(this.#options.now() / 1000) + 1 }
  }

  #push(session: LiveSession, records: readonly GrantRecord[]): void {
    this.#options.effects.push(session.agentId, {
      sessions: [],
      tokens: [],
      grants: grantRevocationsOf(records, this.#options.tokenTtlSeconds),
    })
  }
}

/** What agents must hold earlier tokens to, for as long as one could still be in date. */
export const grantRevocationsOf = (grants: readonly GrantRecord[], tokenTtlSeconds: number): NonNullable<Revocations['grants']> =>
  grants.flatMap(({ sessionId, actor, narrowedTo, narrowedAt }) =>
    narrowedTo === null || narrowedAt === null
      ? []
      : [{ session_id: sessionId, sub: actor, caps: [...narrowedTo], before: narrowedAt, until: narrowedAt + tokenTtlSeconds + 60 }],
  )

/** A key may be restricted; that holds for tokens that it asks for, not for those of other keys of the same principal. */
const keyAllows = ({ capabilities }: Identity): Capabilities => capabilities ?? CAPABILITIES

const isSame = (a: GrantRecord, b: GrantRecord): boolean =>
  a.principal === b.principal &&
  a.narrowedAt === b.narrowedAt &&
  isEqual(a.carried, b.carried) &&
  (a.capabilities === null || b.capabilities === null ? a.capabilities === b.capabilities : isEqual(a.capabilities, b.capabilities))

const isEqual = (a: Capabilities, b: Capabilities): boolean => isWithin(a, b) && isWithin(b, a)
