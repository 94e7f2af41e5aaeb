import { PREVIEW_LIMITS, type PreviewGrant, type PreviewRoute, parsePreviewHost } from '@boxoffice/protocol'
import { hashKey } from '../access/principals.ts'
import { type Origin, systemOrigin } from '../domain/audit-entry.ts'
import { isPlaced, type PlacedSession } from '../domain/session.ts'
import { sessionEntry } from '../domain/session-entry.ts'
import type { ExposedPortRecord } from '../store/preview-store.ts'
import type { AgentRecord, Store } from '../store/store.ts'
import type { TokenIssuer } from '../tokens/issuer.ts'
import type { PreviewUrlOf } from './preview-urls.ts'

export type PreviewRoutesOptions = {
  store: Store
  issuer: Pick<TokenIssuer, 'preview'>
  urlOf: PreviewUrlOf
  now: () => number
}

/** A preview host that is one now. */
export type FoundPreview = { exposed: ExposedPortRecord; session: PlacedSession; agent: AgentRecord; url: string }

/** What is behind preview hosts, for whoever serves them. */
export class PreviewRoutes {
  readonly #options: PreviewRoutesOptions

  constructor(options: PreviewRoutesOptions) {
    this.#options = options
  }

  /** Undefined for a host that is none, or none any more. */
  async find(host: string): Promise<FoundPreview | undefined> {
    const { store, urlOf, now } = this.#options
    const named = parsePreviewHost(host)
    const exposed = named && (await store.previews.byLabel(named.label))
    if (exposed === undefined || exposed.port !== named?.port) return undefined
    if (exposed.expiresAt !== null && exposed.expiresAt <= now()) return undefined
    const session = await store.sessions.byId(exposed.sessionId)
    if (session === undefined || !isPlaced(session) || session.incarnation !== exposed.incarnation) return undefined
    const agent = await store.agents.byId(session.agentId)
    if (agent === undefined) return undefined
    const url = urlOf(exposed, session, agent)
    return new URL(url).hostname === named.hostname ? { exposed, session, agent, url } : undefined
  }

  /** The same for the agent that has the sandbox. */
  async forAgent(agentId: string, host: string): Promise<PreviewRoute | null> {
    const found = await this.find(host)
    return found === undefined || found.agent.id !== agentId ? null : toRoute(found.exposed, found.session, found.url)
  }

  /** Takes the code of a link for the token of a cookie; null for one that is no good on this host, or whose maker has lost its right. */
  async enter(agentId: string, host: string, code: string, origin: Pick<Origin, 'requestId'>): Promise<PreviewGrant | null> {
    const { store, issuer, now } = this.#options
    const found = await this.find(host)
    if (found === undefined || found.agent.id !== agentId) return null
    const { exposed, session, agent, url } = found
    const taken = await store.previews.takeCode(hashKey(code), exposed.label, now())
    if (taken === undefined) return null
    const grant = await store.grants.find(session.id, taken.actor)
    if (grant?.narrowedAt != null && grant.narrowedAt * 1000 >= taken.createdAt && !grant.narrowedTo?.includes('ports')) return null
    const until = Math.min(
      now() + PREVIEW_LIMITS.cookieSeconds * 1000,
      session.hardExpiresAt,
      exposed.expiresAt ?? Number.POSITIVE_INFINITY,
    )
    const token = issuer.preview(session, taken.actor, new URL(url).hostname, { until, publicKey: agent.publicKey })
    const entry = sessionEntry('sandbox.port.enter', { ...systemOrigin(session.tenant), ...origin, actor: taken.actor }, session, {
      ...{ ts: now(), tokenHash: token.hash, data: { port: exposed.port, jti: token.jti } },
    })
    await store.audit.append([entry])
    return { token: token.token, max_age_seconds: Math.max(1, token.expiresAt - token.issuedAt) }
  }
}

export const toRoute = (exposed: ExposedPortRecord, session: PlacedSession, url: string): PreviewRoute => ({
  ...{ label: exposed.label, port: exposed.port, url, access: exposed.access, host: exposed.host },
  ...{ embed_origins: [...exposed.embedOrigins], expires_at: exposed.expiresAt, session_id: session.id, tenant_id: session.tenant },
  ...{ sandbox_id: session.sandboxId, generation: session.incarnation },
})
