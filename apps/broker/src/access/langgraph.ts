import { CAPABILITIES, type Scope } from '@boxoffice/protocol'
import type { OutboundCall } from '../outbound/call.ts'
import { type Authorizer, claimAuthorizer } from './authorizer.ts'
import type { Principal } from './principals.ts'
import { remoteAuthorizer } from './remote-authorizer.ts'
import type { RemoteResponse, RemoteResponses } from './remote-responses.ts'

/** What a server says to somebody who may not know of the thread, or of an id that cannot be one of its threads. */
const DENIALS = new Set([400, 401, 403, 404, 410, 422])

/**
 * Asks the thread's own server, with the caller's own credential, whether the caller can read the thread [C-01]. Members that
 * an owner has named count beside it: an agent whose key that server does not know can share the sandbox of its human [C-03].
 * Scopes that are no threads are claimed as usual.
 */
export function langgraphAuthorizer(url: string, call: OutboundCall, answers: RemoteResponses): Authorizer {
  const ask = async (principal: Principal, scope: Scope): Promise<RemoteResponse> => {
    // No encoding keeps these two from being read as a path.
    if (scope.id === '.' || scope.id === '..') return { allow: false }
    const question = JSON.stringify([principal.tenant, principal.id, scope.id, principal.credential.hash])
    return answers.get(question, async () => {
      const target = new URL(`${url}/threads/${encodeURIComponent(scope.id)}`)
      const headers = { accept: 'application/json', ...principal.credential.header() }
      const { status, text } = await call({ method: 'GET', url: target, headers })
      if (DENIALS.has(status)) return { allow: false }
      if (status !== 200) throw new Error(`GET /threads/{thread_id} answered ${status}`)
      // A page that answers 200 to everything would let everybody in.
      const thread = JSON.parse(text) as { thread_id?: unknown } | null
      if (thread?.thread_id !== scope.id) throw new Error('GET /threads/{thread_id} answered 200 without this thread')
      return { allow: true, role: null, capabilities: CAPABILITIES }
    })
  }
  const threads = remoteAuthorizer(ask)
  return {
    async access(principal, scope, ownership, mode) {
      if (scope.type !== 'thread') return claimAuthorizer.access(principal, scope, ownership, mode)
      // Giving up is always allowed; the thread may be gone from its server already.
      if (mode === 'release' && ownership.owner === principal.id) return claimAuthorizer.access(principal, scope, ownership, mode)
      if (ownership.members.includes(principal.id)) return claimAuthorizer.access(principal, scope, ownership, mode)
      return threads.access(principal, scope, ownership, mode)
    },
  }
}
