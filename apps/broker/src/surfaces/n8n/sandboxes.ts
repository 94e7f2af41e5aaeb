import { randomUUID } from 'node:crypto'
import { z } from 'zod'
import { noSession } from '../../domain/refusals.ts'
import type { Session } from '../../domain/session.ts'
import { validate } from '../../http/body.ts'
import type { Caller } from '../facade/callers.ts'
import type { Attached, FacadeSessions } from '../facade/facade-sessions.ts'

const SANDBOX_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i
/** Seconds that a request waits for a sandbox that wakes. */
const WAKE_WAIT = 30

const CreateRequest = z.object({
  id: z.string().regex(SANDBOX_ID, 'must be a UUID').nullish(),
  ephemeral: z.boolean().nullish(),
})

/** Sandboxes of n8n's client: the sandbox with the id N is the session of the thread `n8n/N` (contract 7.5). */
export class Sandboxes {
  readonly #sessions: FacadeSessions

  constructor(sessions: FacadeSessions) {
    this.#sessions = sessions
  }

  /** A new one, or, where the request names an id, the one that there is. */
  async create(caller: Caller, body: unknown): Promise<object> {
    const { id: given, ephemeral } = validate(CreateRequest, body)
    const id = given?.toLowerCase() ?? randomUUID()
    const { session } = await this.#sessions.make(caller, this.#sessions.threadOf(id), {
      mode: given == null ? 'create_only' : 'ensure',
      ...(ephemeral === true ? { overrides: { profile: { on_lease_expiry: 'terminate' } } } : {}),
    })
    return viewOf(session, id)
  }

  /** Wakes nothing. BINDING_NOT_FOUND where there is none that the caller may use. */
  async get(caller: Caller, id: string): Promise<object> {
    return viewOf(await this.#sessions.require(caller, this.#threadOf(id)), id.toLowerCase())
  }

  async remove(caller: Caller, id: string): Promise<void> {
    await this.#sessions.release(caller, await this.#sessions.require(caller, this.#threadOf(id)))
  }

  /** For a request that uses the sandbox, which wakes. */
  attach(caller: Caller, id: string): Promise<Attached> {
    return this.#sessions.attach(caller, this.#threadOf(id), WAKE_WAIT)
  }

  #threadOf(id: string): string {
    if (!SANDBOX_ID.test(id)) throw noSession('there is no such sandbox')
    return this.#sessions.threadOf(id.toLowerCase())
  }
}

/** As n8n's client reads it; times are whole seconds since 1970. */
const viewOf = (session: Session, id: string): object => ({
  id,
  status: statusOf(session),
  provider: 'boxoffice',
  created_at: Math.floor(session.createdAt / 1000),
  last_active_at: Math.floor(session.lastActivityAt / 1000),
  ephemeral: session.profile.on_lease_expiry === 'terminate',
})

/** `stopped` tells the client that what ran in it has ended. A frozen one goes on as if it had run. */
const statusOf = (session: Session): string => {
  if (session.state === 'provisioning') return 'starting'
  if (session.state === 'terminated' || session.state === 'failed') return 'failed'
  return session.state === 'suspended' && session.mode === 'stop' ? 'stopped' : 'running'
}
