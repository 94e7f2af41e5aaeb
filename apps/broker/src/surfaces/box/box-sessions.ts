import { BoxofficeError, type Profile } from '@boxoffice/protocol'
import type { Principal } from '../../access/principals.ts'
import type { BoxSettings, Pipeline } from '../../config/box.ts'
import { imageRefused, type MayNameImage } from '../../config/images.ts'
import type { Origin } from '../../domain/audit-entry.ts'
import { noSession } from '../../domain/refusals.ts'
import { DEFAULT_SCOPE_TEMPLATE } from '../../domain/scope-catalog.ts'
import { renderScope } from '../../domain/scope-template.ts'
import type { PlacedSession, Session } from '../../domain/session.ts'
import { internalRequest } from '../../sessions/negotiate-request.ts'
import type { SessionService } from '../../sessions/service.ts'
import { invalid } from './errors.ts'
import type { BoxSpec } from './spec.ts'
import { requireCompatible, wantedOf } from './wanted.ts'

/** Who asks, and what its request is called in the audit log. */
export type BoxCaller = { principal: Principal; origin: Origin }

export type BoxSessionsOptions = {
  settings: BoxSettings
  mayNameImage: MayNameImage
  profiles: ReadonlyMap<string, Profile>
  sessions: SessionService
}

/** Marks the sessions of this surface; the number of live ones is limited [2-35]. */
const BOX_LABEL = { key: 'langbot.box', value: 'true' } as const
const WAIT_SECONDS = 60
const MAX_LISTED = 1000

/** Box sessions as sessions of threads: found or made as a request wants them, kept while they are used, ended. */
export class BoxSessions {
  readonly #options: BoxSessionsOptions

  constructor(options: BoxSessionsOptions) {
    this.#options = options
  }

  /** The session that a request means, made if there is none, with what the request names [2-20]. */
  async ensure(caller: BoxCaller, spec: BoxSpec): Promise<{ id: string; session: PlacedSession }> {
    const { sessions, settings, mayNameImage } = this.#options
    const pipeline = this.#pipeline(spec.pipeline_uuid)
    const template = spec.scope_template ?? pipeline?.['box-session-id-template'] ?? DEFAULT_SCOPE_TEMPLATE
    const id = spec.session_id ?? renderScope(template, spec.variables ?? {})
    const live = await this.find(caller, id)
    const wanted = wantedOf(spec, this.profile(), settings, pipeline, live)
    if (live !== undefined) requireCompatible(id, spec, live, wanted)
    // Where the profile holds its image, that of the request counts for nothing.
    const { image } = wanted.profile
    if (spec.image !== undefined && image !== null && !mayNameImage(image)) throw invalid('image', imageRefused('image', image))
    const request = internalRequest(id, {
      mode: 'ensure',
      profile: settings.profile,
      overrides: wanted.overrides,
      labels: {
        [BOX_LABEL.key]: BOX_LABEL.value,
        'langbot.session_id': id,
        ...(spec.session_id === undefined ? { scope_template: template } : {}),
      },
      needsImage: spec.image !== undefined,
      wait: WAIT_SECONDS,
      labelQuota: { ...BOX_LABEL, max: settings.maxSessions },
    })
    const { session } = await sessions.negotiate(caller.principal, request, caller.origin)
    // Somebody else may have made it meanwhile, differently.
    if (live === undefined) requireCompatible(id, spec, session, wanted)
    return { id, session }
  }

  /** The live session of a Box session's id, where the caller may use it. */
  async find({ principal }: BoxCaller, id: string): Promise<PlacedSession | undefined> {
    const filter = { state: null, scopeType: 'thread', scopeId: id, label: null, limit: 1, after: null }
    const [found] = await this.#options.sessions.list(principal, filter)
    return found as PlacedSession | undefined
  }

  /** The same; 404 where there is none. */
  async require(caller: BoxCaller, id: string): Promise<PlacedSession> {
    const found = await this.find(caller, id)
    if (found === undefined) throw noSession(`there is no Box session "${id.slice(0, 256)}"; create it, or run a command in it`)
    return found
  }

  /** Live ones of this surface that the caller may use. */
  list({ principal }: BoxCaller): Promise<Session[]> {
    return this.#options.sessions.list(principal, {
      state: null,
      scopeType: 'thread',
      scopeId: null,
      label: BOX_LABEL,
      limit: MAX_LISTED,
      after: null,
    })
  }

  /** Keeps a session from its TTL while a command runs, and counts it as used at the end [2-22]. */
  inUse(caller: BoxCaller, session: PlacedSession): Disposable {
    const ttl = this.#options.settings.sessionTtlSec
    const touch = () => void this.touch(caller, session)
    const timer = ttl > 0 ? setInterval(touch, Math.min(30_000, (ttl * 1000) / 3)) : undefined
    return {
      [Symbol.dispose]: () => {
        clearInterval(timer)
        touch()
      },
    }
  }

  /** It may have ended meanwhile, which is no failure of what was done with it. */
  async touch({ principal }: BoxCaller, session: Session): Promise<void> {
    await this.#options.sessions.heartbeat(principal, session.id).catch(() => {})
  }

  /** Ends a session; one that has ended already is as good. */
  async drop({ principal, origin }: BoxCaller, session: Session): Promise<void> {
    await this.#options.sessions.release(principal, session.id, { keepWorkspace: false }, origin).catch((thrown: unknown) => {
      if (!(thrown instanceof BoxofficeError && thrown.code === 'BINDING_NOT_FOUND')) throw thrown
    })
  }

  #pipeline(uuid: string | undefined): Pipeline | null {
    if (uuid === undefined) return null
    const { pipelines } = this.#options.settings
    const found = pipelines.find((pipeline) => pipeline.uuid === uuid)
    if (found === undefined) throw invalid('pipeline_uuid', `pipeline_uuid: there is no pipeline "${uuid}" in box.pipelines`)
    return found
  }

  /** That of every Box session. */
  profile(): Profile {
    const { profiles, settings } = this.#options
    const profile = profiles.get(settings.profile)
    if (profile === undefined) throw new Error(`profile ${settings.profile} was checked at the start`)
    return profile
  }
}
