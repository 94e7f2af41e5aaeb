import { randomBytes } from 'node:crypto'
import { KeyedQueue } from '@boxoffice/kit/keyed-queue'
import {
  BoxofficeError,
  CAPABILITIES,
  type ExposedPort,
  type ExposePortRequest,
  PREVIEW_ENTER_PATH,
  PREVIEW_LIMITS,
  type PreviewRoute,
} from '@boxoffice/protocol'
import { hashKey, type Principal } from '../access/principals.ts'
import type { AgentClient } from '../agents/agent-client.ts'
import { agentOf } from '../agents/agent-of.ts'
import type { AuditEntry, AuditEvent, Origin } from '../domain/audit-entry.ts'
import type { Capabilities } from '../domain/capabilities.ts'
import { noSession, requirePlaced } from '../domain/refusals.ts'
import type { PlacedSession } from '../domain/session.ts'
import { sessionEntry } from '../domain/session-entry.ts'
import type { Log } from '../host/log.ts'
import type { SessionService } from '../sessions/service.ts'
import type { ExposedPortRecord } from '../store/preview-store.ts'
import type { AgentRecord, Store } from '../store/store.ts'
import type { PreviewUrlOf } from './preview-urls.ts'
import { toRoute } from './routes.ts'

export type PreviewsOptions = {
  store: Store
  sessions: Pick<SessionService, 'authorize'>
  client: Pick<AgentClient, 'replacePreviews'>
  urlOf: PreviewUrlOf
  /** Ports of the sandbox on which somebody listens. */
  listeningIn: (session: PlacedSession) => Promise<number[]>
  log: Log
  now: () => number
}

type ExposedPorts = { exposed: ExposedPort[]; listening: number[] | null }

const BASE32 = 'abcdefghijklmnopqrstuvwxyz234567'
const newLabel = (): string => Array.from(randomBytes(20), (byte) => BASE32[byte & 31]).join('')

/** What owners do with previews of their sessions' ports. Refusals are `BoxofficeError`. */
export class Previews {
  readonly #options: PreviewsOptions
  /** An agent hears of the ports of one sandbox in the order in which they changed. */
  readonly #telling = new KeyedQueue()

  constructor(options: PreviewsOptions) {
    this.#options = options
  }

  /** Gives a port a host of its own, or changes the terms of one that has it. `public` takes a profile that allows it. */
  async expose(principal: Principal, id: string, request: ExposePortRequest, origin: Origin): Promise<ExposedPort> {
    const { store, urlOf, now } = this.#options
    const { session, agent } = await this.#owned(principal, id)
    if (request.access === 'public' && !session.profile.public_ports)
      throw new BoxofficeError('FORBIDDEN', `access: the profile ${session.profile.name} allows no public ports (public_ports)`)
    const { port, access, ttl_seconds: ttl } = request
    const wanted: ExposedPortRecord = {
      ...{ label: newLabel(), tenant: session.tenant, sessionId: session.id, incarnation: session.incarnation, port, access },
      ...{ host: request.host, embedOrigins: request.embed_origins, createdBy: principal.id, createdAt: now() },
      expiresAt: ttl === undefined ? null : now() + ttl * 1000,
    }
    // Before anything is written: where there is no domain, there is nothing to expose.
    urlOf(wanted, session, agent)
    const expires_at = wanted.expiresAt === null ? null : new Date(wanted.expiresAt).toISOString()
    const outcome = await store.previews.expose(wanted, PREVIEW_LIMITS.ports, {
      audit: [this.#entry('sandbox.port.expose', origin, session, { port, access, expires_at })],
      events: [{ ts: now(), type: 'port.exposed', data: { port, access, expires_at } }],
    })
    if (outcome.outcome === 'ended') throw noSession('the session has ended')
    if (outcome.outcome !== 'exposed')
      throw new BoxofficeError('QUOTA_EXCEEDED', `a session has ${PREVIEW_LIMITS.ports} exposed ports at most; withdraw one first`)
    await this.#tell(session, agent)
    return this.#wire(outcome.port, session, agent)
  }

  /** The ports that have a host, and those on which somebody listens; null where the sandbox cannot be asked now. */
  async list(principal: Principal, id: string): Promise<ExposedPorts> {
    const { listeningIn, log } = this.#options
    const { session, agent } = await this.#usable(principal, id)
    const exposed = (await this.#live(session)).map((one) => this.#wire(one, session, agent))
    // Looking wakes nothing.
    if (session.state === 'suspended') return { exposed, listening: null }
    const listening = await listeningIn(session).catch((err: unknown) => {
      log.warn({ session_id: session.id, err }, 'the ports of a sandbox could not be asked for')
      return null
    })
    return { exposed, listening }
  }

  /** Takes the host of a port away, for good; what is open to it is cut. */
  async withdraw(principal: Principal, id: string, port: number, origin: Origin): Promise<void> {
    const { store, now } = this.#options
    const { session, agent } = await this.#owned(principal, id)
    const withdrawn = await store.previews.withdraw(session.id, port, {
      audit: [this.#entry('sandbox.port.withdraw', origin, session, { port })],
      events: [{ ts: now(), type: 'port.withdrawn', data: { port } }],
    })
    if (!withdrawn) throw notExposed(port)
    await this.#tell(session, agent)
  }

  /** A link by which one browser comes in, once. Of a port with access `tenant` everybody of the tenant makes one. */
  async link(
    principal: Principal,
    id: string,
    port: number,
    { ttlSeconds, path }: { ttlSeconds: number; path: string },
    origin: Origin,
  ): Promise<{ url: string; expires_at: string }> {
    const { store, now } = this.#options
    const { session, agent, exposed } = await this.#linkable(principal, id, port)
    const code = randomBytes(32).toString('base64url')
    const expiresAt = now() + ttlSeconds * 1000
    await store.previews.addCode({ hash: hashKey(code), label: exposed.label, actor: principal.id, createdAt: now(), expiresAt }, now())
    await store.audit.append([this.#entry('sandbox.port.link', origin, session, { port })])
    const { url } = this.#wire(exposed, session, agent)
    const fragment = new URLSearchParams({ code, ...(path !== '/' && { return: path }) })
    return { url: `${url}${PREVIEW_ENTER_PATH}#${fragment}`, expires_at: new Date(expiresAt).toISOString() }
  }

  async #linkable(principal: Principal, id: string, port: number) {
    const { store } = this.#options
    const found = await store.sessions.byId(id)
    if (found === undefined || found.tenant !== principal.tenant) throw noSession()
    const ofTenant = (await store.previews.ofSession(id)).some((one) => one.port === port && one.access === 'tenant')
    const session = ofTenant ? requirePlaced(found) : (await this.#usable(principal, id)).session
    requirePorts(principal.capabilities ?? CAPABILITIES, session)
    const exposed = (await this.#live(session)).find((one) => one.port === port)
    if (exposed === undefined) throw notExposed(port)
    return { session, exposed, agent: await agentOf(store.agents, session) }
  }

  async #owned(principal: Principal, id: string) {
    const authorized = await this.#usable(principal, id)
    if (authorized.access === 'owner') return authorized
    throw new BoxofficeError('FORBIDDEN', 'ports: only the owner of the session or an operator says which ports have a host')
  }

  async #usable(principal: Principal, id: string) {
    const { session: found, access, capabilities } = await this.#options.sessions.authorize(principal, id)
    const session = requirePlaced(found)
    requirePorts(capabilities, session)
    return { session, access, agent: await agentOf(this.#options.store.agents, session) }
  }

  /** Those of the present incarnation that have not run out. */
  async #live({ id, incarnation }: PlacedSession): Promise<ExposedPortRecord[]> {
    const { store, now } = this.#options
    const all = await store.previews.ofSession(id)
    return all.filter((one) => one.incarnation === incarnation && (one.expiresAt === null || one.expiresAt > now()))
  }

  /** An agent that does not hear it asks within a minute. */
  async #tell(session: PlacedSession, agent: AgentRecord): Promise<void> {
    const { client, urlOf, log } = this.#options
    await this.#telling.run(session.id, async () => {
      const routes: PreviewRoute[] = (await this.#live(session)).map((one) => toRoute(one, session, urlOf(one, session, agent)))
      await client.replacePreviews(agent, session.sandboxId, routes).catch((err: unknown) => {
        log.warn(
          { session_id: session.id, agent_id: agent.id, err },
          'an agent could not be told of exposed ports; it asks within a minute',
        )
      })
    })
  }

  #wire(exposed: ExposedPortRecord, session: PlacedSession, agent: AgentRecord): ExposedPort {
    const { port, access, host, embedOrigins, expiresAt } = exposed
    const expires_at = expiresAt === null ? null : new Date(expiresAt).toISOString()
    return { port, url: this.#options.urlOf(exposed, session, agent), access, host, embed_origins: [...embedOrigins], expires_at }
  }

  #entry(event: AuditEvent, origin: Origin, session: PlacedSession, data: Record<string, unknown>): AuditEntry {
    return sessionEntry(event, origin, session, { ts: this.#options.now(), data })
  }
}

/** Without isolation the loopback of a sandbox is the host's: who may run nothing there reaches nothing there. */
const requirePorts = (capabilities: Capabilities, { isolation }: PlacedSession): void => {
  for (const needed of isolation === 'none' ? (['ports', 'exec'] as const) : (['ports'] as const))
    if (!capabilities.includes(needed))
      throw new BoxofficeError('CAPABILITY_DENIED', `${needed} not granted: policy does not allow the caller this capability here`, {
        details: { capability: needed },
      })
}

const notExposed = (port: number): BoxofficeError => new BoxofficeError('NOT_FOUND', `port ${port} of this session is not exposed`)
