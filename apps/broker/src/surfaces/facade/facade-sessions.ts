import type { DataplaneActor } from '../../dataplane/access.ts'
import { noSession } from '../../domain/refusals.ts'
import type { LiveSession, PlacedSession, Session, SuspendMode } from '../../domain/session.ts'
import { internalRequest, type NegotiateRequest } from '../../sessions/negotiate-request.ts'
import type { SessionService } from '../../sessions/service.ts'
import type { Caller } from './callers.ts'

export type FacadeSessionsOptions = {
  sessions: SessionService
  /** Its sessions have the label `surface: <name>`, so that they can be listed. */
  surface: string
  /** What the ids of threads begin with that are made without a thread of the client's own. */
  prefix: string
}

/** A session that the caller may use, awake, and for whom its dataplane is used: `dataplane.session(session.id, actor)`. */
export type Attached = { session: PlacedSession; actor: DataplaneActor }

export type MakeOptions = Pick<NegotiateRequest, 'mode'> &
  Partial<Pick<NegotiateRequest, 'profile' | 'overrides' | 'needsImage'>> & {
    labels?: Record<string, string>
    /** Whole seconds that the caller waits for a sandbox that starts; after them SANDBOX_STARTING. */
    wait?: number
  }

/** Seconds that a caller waits for a sandbox that starts, where its request names none. */
const START_WAIT = 60
const LABEL = 'surface'

/** The sessions of a facade: each is that of a thread, an ordinary session by the rules of every other client. */
export class FacadeSessions {
  readonly #options: FacadeSessionsOptions

  constructor(options: FacadeSessionsOptions) {
    this.#options = options
  }

  threadOf(name: string): string {
    return this.#options.prefix + name
  }

  /** The session of a thread, made as `mode` says, and woken [4-72]. */
  async make({ principal, origin }: Caller, threadId: string, { labels, wait = START_WAIT, ...fields }: MakeOptions): Promise<Attached> {
    const request = internalRequest(threadId, { ...fields, labels: { ...labels, [LABEL]: this.#options.surface }, wait })
    const { session, token } = await this.#options.sessions.negotiate(principal, request, origin)
    return { session, actor: { actor: principal.id, capabilities: token.capabilities, allowedAt: token.issuedAt } }
  }

  /** The session of a thread that there is, woken; BINDING_NOT_FOUND where there is none. */
  attach(caller: Caller, threadId: string, wait?: number): Promise<Attached> {
    return this.make(caller, threadId, { mode: 'get', ...(wait === undefined ? {} : { wait }) })
  }

  /** The live session of a thread, where the caller may use it; wakes nothing. */
  async find({ principal }: Caller, threadId: string): Promise<LiveSession | undefined> {
    const filter = { state: null, scopeType: 'thread', scopeId: threadId, label: null, limit: 1, after: null }
    const [found] = await this.#options.sessions.list(principal, filter)
    return found as LiveSession | undefined
  }

  /** The same; BINDING_NOT_FOUND where there is none. */
  async require(caller: Caller, threadId: string): Promise<LiveSession> {
    return (await this.find(caller, threadId)) ?? refuse()
  }

  /** Live ones of this facade that the caller may use, at most `limit`. */
  list({ principal }: Caller, limit: number): Promise<Session[]> {
    const label = { key: LABEL, value: this.#options.surface }
    return this.#options.sessions.list(principal, { state: null, scopeType: 'thread', scopeId: null, label, limit, after: null })
  }

  /** Moves the lease; wakes nothing [4-84]. */
  async keep({ principal }: Caller, session: Session): Promise<void> {
    await this.#options.sessions.heartbeat(principal, session.id)
  }

  /** Suspends the session at once; `attach` and its dataplane wake it. A stop ends what runs; a freeze of one in use is BINDING_CONFLICT. */
  async suspend({ principal, origin }: Caller, session: Session, mode: SuspendMode): Promise<void> {
    await this.#options.sessions.suspend(principal, session.id, mode, origin)
  }

  /** Ends the session, with what runs in it and its files. */
  async release({ principal, origin }: Caller, session: Session): Promise<void> {
    await this.#options.sessions.release(principal, session.id, { keepWorkspace: false }, origin)
  }
}

const refuse = (): never => {
  throw noSession()
}
