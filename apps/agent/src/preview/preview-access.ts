import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { BoxofficeError, PREVIEW_TOKEN_HEADER, type PreviewRoute, type SessionTokenClaims } from '@boxoffice/protocol'
import type { Authenticator } from '../auth/auth.ts'
import { requireIn } from '../auth/require.ts'
import type { RevocationStore } from '../auth/revocations.ts'
import { isPlainExpiry } from '../auth/verify-signature.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import { previewCookies } from './cookies.ts'
import type { ExposedPorts } from './exposed-ports.ts'

/** A request that may go to the program. `claims`: of whom; undefined where everybody may. */
export type Admission = { hostname: string; route: PreviewRoute; sandbox: Sandbox; claims: SessionTokenClaims | undefined }

export type PreviewAccessOptions = {
  exposed: ExposedPorts
  auth: Authenticator
  revocations: Pick<RevocationStore, 'deniedSession'>
  /** Unix seconds by the broker's clock. */
  now: () => number
}

/** Who may come to which preview. Refusals are `BoxofficeError`: SESSION_EXPIRED (410) for a host behind which nothing will ever be again. */
export interface PreviewAccess {
  /** What is exposed by this name. */
  route(hostname: string): Promise<PreviewRoute>
  admit(incoming: IncomingMessage, hostname: string, isUpgrade: boolean): Promise<Admission>
  /** Throws when what was admitted would not be any more; that its token has expired is nothing to what is open already. */
  recheck(admission: Admission): void
}

/** They change nothing, so a page of another origin may have the browser send them. */
const SAFE = new Set(['GET', 'HEAD', 'OPTIONS'])

export const createPreviewAccess = ({ exposed, auth, revocations, now }: PreviewAccessOptions): PreviewAccess => {
  const requireExposed = (route: PreviewRoute | undefined): PreviewRoute => {
    const isOver = route === undefined || (route.expires_at !== null && route.expires_at <= now() * 1000)
    if (isOver || revocations.deniedSession(route.session_id) !== undefined) throw over()
    return route
  }

  const sandboxOf = (route: PreviewRoute): Sandbox => {
    const { sandbox_id, session_id: sid, generation: gen } = route
    try {
      return auth.sandbox({ sandbox_id, sid, gen })
    } catch (thrown) {
      // It was made anew, under other names.
      if (thrown instanceof BoxofficeError && thrown.code === 'SESSION_EXPIRED') throw over()
      throw thrown
    }
  }

  const requireClaims = (claims: SessionTokenClaims, { session_id, generation }: PreviewRoute, sandbox: Sandbox): SessionTokenClaims => {
    if (claims.sid !== session_id || claims.gen !== generation)
      throw new BoxofficeError('FORBIDDEN', 'The token is for another session, or for an earlier incarnation of the sandbox')
    requireIn(auth, sandbox, claims, 'ports')
    return claims
  }

  const byCookie = async ({ headers }: IncomingMessage, hostname: string): Promise<SessionTokenClaims> => {
    let refusal = new BoxofficeError('UNAUTHENTICATED', `A link to this preview is required, or a session token as ${PREVIEW_TOKEN_HEADER}`)
    for (const token of previewCookies(headers.cookie)) {
      try {
        return await auth.authenticatePreview(token, hostname)
      } catch (thrown) {
        if (!(thrown instanceof BoxofficeError)) throw thrown
        refusal = thrown
      }
    }
    throw refusal
  }

  return {
    route: async (hostname) => requireExposed(await exposed.find(hostname)),
    async admit(incoming, hostname, isUpgrade) {
      const route = requireExposed(await exposed.find(hostname))
      const admitted = (claims?: SessionTokenClaims): Admission => {
        const sandbox = sandboxOf(route)
        return { hostname, route, sandbox, claims: claims && requireClaims(claims, route, sandbox) }
      }
      if (route.access === 'public') return admitted()
      const token = incoming.headers[PREVIEW_TOKEN_HEADER]
      if (typeof token === 'string') return admitted(await auth.authenticate(token, route.sandbox_id))
      const claims = await byCookie(incoming, hostname)
      if (isUpgrade || !SAFE.has(incoming.method ?? 'GET')) requireOrigin(incoming.headers, route)
      return admitted(claims)
    },
    recheck({ hostname, claims, sandbox }) {
      const route = requireExposed(exposed.known(hostname))
      if (claims === undefined) {
        if (route.access !== 'public') throw new BoxofficeError('UNAUTHENTICATED', 'This preview is not open to everybody any more')
        return
      }
      try {
        auth.recheck(claims)
      } catch (thrown) {
        if (!(thrown instanceof BoxofficeError) || !isPlainExpiry(thrown)) throw thrown
      }
      requireIn(auth, sandbox, claims, 'ports')
    },
  }
}

/** A browser sends the cookie for whoever asks; what it says of who asks is `Origin`. */
const requireOrigin = ({ origin }: IncomingHttpHeaders, { url, embed_origins }: PreviewRoute): void => {
  if (origin === url || (origin !== undefined && embed_origins.includes(origin))) return
  throw new BoxofficeError('FORBIDDEN', 'Origin: must be the preview itself, or one of its embed_origins; a cookie alone does not do')
}

const over = (): BoxofficeError => new BoxofficeError('SESSION_EXPIRED', 'There is no preview here, or none any more; ask for another link')
