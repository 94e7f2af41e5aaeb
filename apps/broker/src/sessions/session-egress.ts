import {
  BoxofficeError,
  type EgressLists,
  type EgressPolicy,
  hasPlaceholder,
  hasRule,
  policyOf,
  type SessionEgress,
  wider,
} from '@boxoffice/protocol'
import type { Principal } from '../access/principals.ts'
import { agentOf } from '../agents/agent-of.ts'
import type { Origin } from '../domain/audit-entry.ts'
import { resolveLists } from '../domain/egress-lists.ts'
import { requirePlaced } from '../domain/refusals.ts'
import { egressOf, type PlacedSession } from '../domain/session.ts'
import { sessionEntry } from '../domain/session-entry.ts'
import type { Store } from '../store/store.ts'
import type { SessionEffects } from './effects.ts'
import type { SessionService } from './service.ts'
import type { SessionWriter } from './session-writer.ts'

export type SessionEgressOptions = {
  store: Store
  sessions: Pick<SessionService, 'authorize'>
  writer: SessionWriter
  effects: Pick<SessionEffects, 'setEgress'>
  lists: EgressLists
  now: () => number
}

/** Where the programs of a session may connect to, read and changed by its owner. Refusals are `BoxofficeError`. */
export class SessionEgressService {
  readonly #options: SessionEgressOptions

  constructor(options: SessionEgressOptions) {
    this.#options = options
  }

  async read(principal: Principal, id: string): Promise<SessionEgress> {
    const { session } = await this.#options.sessions.authorize(principal, id)
    return toWire(requirePlaced(session))
  }

  /**
   * Puts a policy in the place of the profile's; null: the profile's again. Returns when it holds: connections that it does not allow are
   * cut. 501 UNSUPPORTED for a sandbox without a proxy. 503 where the agent does not hear it: it will hold once the agent is back.
   */
  async set(principal: Principal, id: string, wanted: EgressPolicy | null, origin: Origin): Promise<SessionEgress> {
    const { store, sessions, writer, effects, lists, now } = this.#options
    const { session, access } = await sessions.authorize(principal, id)
    const placed = requirePlaced(session)
    if (access !== 'owner')
      throw new BoxofficeError('FORBIDDEN', 'egress: only the owner of the session or an operator says where its programs may connect to')
    requireProxy(placed)
    const policy = wanted === null ? null : resolveLists(wanted, lists)
    if (policy !== null) requireAllowed(policy, placed, principal)
    const agent = await agentOf(store.agents, placed)
    const source = policy === null ? 'profile' : 'session'
    for (;;) {
      const change = await writer.change(
        placed,
        { type: 'egress_set', policy },
        {
          audit: (after) => [sessionEntry('sandbox.egress.set', origin, after, { ts: now(), data: { policy } })],
          events: () => [{ ts: now(), type: 'egress.changed', data: { source } }],
        },
      )
      const changed = requirePlaced(change.session)
      const holds = await effects.setEgress(agent, changed)
      if (holds === changed.egress?.revision) return toWire(changed)
      // Another change was later, or the database was put back to a state from before an order that the agent remembers.
      if (!(await store.sessions.catchUp(id, holds))) return this.read(principal, id)
    }
  }
}

const toWire = (session: PlacedSession): SessionEgress => ({
  network: { requested: session.profile.network, effective: session.network },
  policy: egressOf(session),
  source: session.egress?.policy == null ? 'profile' : 'session',
  locked: isLocked(session),
})

const isLocked = ({ profile }: PlacedSession): boolean => profile.locked.includes('egress')

function requireProxy({ network, profile }: PlacedSession): void {
  if (network === 'proxy') return
  const has = network === null ? 'its agent is of an earlier release' : `its network is ${network}`
  throw new BoxofficeError(
    'UNSUPPORTED',
    `egress: the sandbox has no proxy: ${has}. Choose a profile with "network": "proxy" instead of ${profile.name}`,
  )
}

/** Of a locked profile nothing but less; of any the private addresses and, but for operators, the rules that set headers. */
function requireAllowed(policy: EgressPolicy, session: PlacedSession, principal: Principal): void {
  const { name } = session.profile
  const base = policyOf(session.profile)
  const locked = isLocked(session) ? wider(policy, base) : undefined
  if (locked !== undefined)
    throw new BoxofficeError('FORBIDDEN', `egress: the policy of the profile ${name} is locked, and this one allows more. ${locked}`)
  if (policy.private_addresses && !base.private_addresses)
    throw new BoxofficeError('FORBIDDEN', `egress: the profile ${name} allows no private addresses (private_addresses)`)
  // Whoever chooses the host of a secret can read it there.
  const injecting = policy.rules.find((rule) => rule.inject.length > 0 && !hasRule(base, rule))
  const placeholder = policy.placeholders.find((one) => !hasPlaceholder(base, one))
  const secret = injecting?.host ?? placeholder?.env
  if (secret !== undefined && principal.role !== 'operator')
    throw new BoxofficeError(
      'FORBIDDEN',
      `egress: only operators say where secrets go; the profile ${name} has no such rule or placeholder for ${secret}`,
    )
}
