import type { Session } from '@boxoffice/client'
import { BoxofficeError } from './errors.ts'

/**
 * Checks a session that was made of `configurable.sandbox`, while the broker could not answer. The SDK has checked its `thread_id`,
 * its time and its hosts [4-170] [C-60]. Its fields say what its sender likes, its token does not: the token must name the same
 * thread, session and sandbox, and the agent that it is for must take it.
 */
export const verifyBootstrap = async (sandbox: unknown, threadId: string, session: Session): Promise<void> => {
  const claims = claimsOf((sandbox as { token?: unknown }).token)
  const expected = { thread_id: threadId, sid: session.id, sandbox_id: session.sandboxId }
  for (const [name, value] of Object.entries(expected))
    if (claims[name] !== value) throw refused(`the token of configurable.sandbox is not for this ${name}`)
  try {
    await session.files.stat('.')
  } catch (error) {
    throw refused('the agent does not take the token of configurable.sandbox', error)
  }
}

/** Of a broker that answers: `configurable.sandbox` may name the session, and then it must be that of the thread. */
export const checkSessionId = (sandbox: unknown, session: Session): void => {
  const named = sandbox as { session_id?: unknown; token?: unknown } | null | undefined
  // A whole block is only for when the broker is away: its session may have ended since.
  if (named?.session_id === undefined || named.token !== undefined || named.session_id === session.id) return
  throw refused('the session_id of configurable.sandbox is not the session of this thread')
}

const refused = (message: string, cause?: unknown): BoxofficeError =>
  new BoxofficeError(message, 'BOOTSTRAP_REFUSED', cause instanceof Error ? cause : undefined)

/** The claims as they stand there: the agent checks the signature. */
const claimsOf = (token: unknown): Record<string, unknown> => {
  try {
    const payload = JSON.parse(Buffer.from(String(token).split('.')[1] ?? '', 'base64url').toString()) as unknown
    return payload !== null && typeof payload === 'object' ? (payload as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}
