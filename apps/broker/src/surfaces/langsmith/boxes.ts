import { randomBytes } from 'node:crypto'
import { BoxofficeError, type Profile } from '@boxoffice/protocol'
import type { PlacedSession, Session } from '../../domain/session.ts'
import type { Caller } from '../facade/callers.ts'
import type { Attached, FacadeSessions } from '../facade/facade-sessions.ts'
import type { SandboxEnvironments } from '../facade/sandbox-environments.ts'
import { BOX_NAME, readCreate, refuseUnsupported } from './box-request.ts'
import { boxView, statusOf } from './box-view.ts'

export type BoxesOptions = {
  sessions: FacadeSessions
  environments: SandboxEnvironments
  profiles: ReadonlyMap<string, Profile>
  /** Where the dataplanes of boxes begin: `<url>/<name>`. */
  dataplaneBase: string
}

const MAX_LISTED = 1000
/** Seconds that a request on a dataplane waits for a box that wakes. */
const WAKE_WAIT = 30

/** LangSmith's boxes: a box named N is the session of the thread `langsmith/N` (contract 7.2). */
export class Boxes {
  readonly #options: BoxesOptions

  constructor(options: BoxesOptions) {
    this.#options = options
  }

  /** Throws BINDING_CONFLICT where the name is taken, SANDBOX_STARTING where the box is not ready in time. */
  async create(caller: Caller, body: unknown): Promise<object> {
    const { sessions, environments, profiles } = this.#options
    const { name = `box-${randomBytes(6).toString('hex')}`, make, environment, waits } = readCreate(body, profiles)
    const thread = sessions.threadOf(name)
    const made = sessions.make(caller, thread, { ...make, mode: 'create_only' }).then(({ session }) => session)
    const { session, late } = await made.then(
      (ready) => ({ session: ready, late: undefined }),
      async (thrown: unknown) => {
        if (!(thrown instanceof BoxofficeError && thrown.code === 'SANDBOX_STARTING')) throw thrown
        return { session: await sessions.require(caller, thread), late: thrown }
      },
    )
    await environments.keep(session.id, environment)
    if (waits && late !== undefined) throw late
    return this.#view(session, name)
  }

  async list(caller: Caller): Promise<object[]> {
    const { sessions } = this.#options
    const found = await sessions.list(caller, MAX_LISTED)
    return found.map((session) => this.#view(session, session.scope.id.slice(sessions.threadOf('').length)))
  }

  async get(caller: Caller, name: string): Promise<object> {
    return this.#view(await this.#find(caller, name), name)
  }

  async status(caller: Caller, name: string): Promise<object> {
    return { status: statusOf(await this.#find(caller, name)), status_message: null }
  }

  /** A box keeps its name and its times for life; a request that changes nothing is a read. */
  async update(caller: Caller, name: string, body: unknown): Promise<object> {
    const session = await this.#find(caller, name)
    const view = this.#view(session, name) as Record<string, unknown>
    const changed = Object.entries(typeof body === 'object' && body !== null ? body : {}).filter(([field, value]) => view[field] !== value)
    refuseUnsupported(
      Object.fromEntries(changed),
      changed.map(([field]) => field),
    )
    return view
  }

  async start(caller: Caller, name: string): Promise<object> {
    const { session } = await this.attach(caller, name)
    return this.#view(session, name)
  }

  /** Ends what runs; files stay. */
  async stop(caller: Caller, name: string): Promise<object> {
    await this.#options.sessions.suspend(caller, await this.#find(caller, name), 'stop')
    return this.get(caller, name)
  }

  async remove(caller: Caller, name: string): Promise<void> {
    await this.#options.sessions.release(caller, await this.#find(caller, name))
  }

  /** For a request on the dataplane of the box, which wakes it. `wait`: seconds. */
  attach(caller: Caller, name: string, wait = WAKE_WAIT): Promise<Attached> {
    return this.#options.sessions.attach(caller, this.#threadOf(name), wait)
  }

  #find(caller: Caller, name: string): Promise<Session> {
    return this.#options.sessions.require(caller, this.#threadOf(name))
  }

  #threadOf(name: string): string {
    if (!BOX_NAME.test(name)) throw new BoxofficeError('BINDING_NOT_FOUND', 'there is no such box')
    return this.#options.sessions.threadOf(name)
  }

  #view(session: Session | PlacedSession, name: string): object {
    return boxView(session, name, `${this.#options.dataplaneBase}/${encodeURIComponent(name)}`)
  }
}
