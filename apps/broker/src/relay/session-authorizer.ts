import type { Holder } from '@boxoffice/node-http'
import { BoxofficeError, type SessionTokenClaims } from '@boxoffice/protocol'
import { agentOf } from '../agents/agent-of.ts'
import { requireThere } from '../domain/refusals.ts'
import type { PlacedSession } from '../domain/session.ts'
import type { AgentRecord, Store } from '../store/store.ts'
import { type Credentials, unauthenticated } from '../tokens/credentials.ts'

/** A client's token, checked, with its session, the agent of it and the broker's own token in the place of the client's. */
export type AuthorizedSession = { claims: SessionTokenClaims; upstreamToken: string; session: PlacedSession; agent: AgentRecord }

/** Who authenticated a socket before; a renewal must be of the same session [C-38]. */
export type Bearer = Pick<SessionTokenClaims, 'sid'>

/** Whose connection it is that the token was shown on. */
export const holderOf = ({ claims: { tid, sub } }: Pick<AuthorizedSession, 'claims'>): Holder => ({ tenant: tid, principal: sub })

export interface SessionAuthorizer {
  /** Whether there is a session of this name, for who has no token yet. */
  exists(sessionId: string): Promise<boolean>
  /** Checks the token, that it is for the session of the path, and that the session is there (contract 2.5, last column). */
  authorize(sessionId: string, token: string, renews?: Bearer): Promise<AuthorizedSession>
}

export type SessionAuthorizerOptions = {
  credentials: Credentials
  store: { sessions: Pick<Store['sessions'], 'byId'>; agents: Pick<Store['agents'], 'byId'> }
  /** Others than this machine's users can reach the broker: what is not isolated is not for them. */
  exposed: boolean
}

export const createSessionAuthorizer = ({ credentials, store, exposed }: SessionAuthorizerOptions): SessionAuthorizer => ({
  exists: async (sessionId) => (await store.sessions.byId(sessionId)) !== undefined,
  async authorize(sessionId, token, renews) {
    const { claims, upstreamToken } = await credentials.check(token)
    if (renews !== undefined && claims.sid !== renews.sid)
      throw unauthenticated('this token is for another session than the one that opened the socket; open another socket')
    if (claims.sid !== sessionId) throw new BoxofficeError('FORBIDDEN', 'the session token is for another session')
    const session = requireThere(await store.sessions.byId(sessionId))
    const agent = await agentOf(store.agents, session)
    if (agent.relay === 'never' || (exposed && agent.provider.isolation === 'none'))
      throw new BoxofficeError('BACKEND_UNAVAILABLE', 'the agent of this session is reached directly only; negotiate with relay "auto"')
    return { claims, upstreamToken: upstreamToken(agent.publicKey), session, agent }
  },
})
