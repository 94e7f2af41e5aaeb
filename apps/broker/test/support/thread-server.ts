import { json, startServer } from './server.ts'

/**
 * The part of a LangGraph server that matters here: threads that belong to users, `GET /threads/{thread_id}`. A user is known by
 * its bearer token or key, as that server's own authentication would.
 */
export async function startThreadServer() {
  /** Thread id → credentials of those who may read it. */
  const threads = new Map<string, Set<string>>()
  const users = new Set<string>()
  const state = { status: null as number | null, hang: false }
  const server = await startServer(({ method, path, headers }, response) => {
    if (state.hang) return
    const id = /^\/threads\/([^/]+)$/.exec(path)?.[1]
    // With the thread in it, so that only the status says that it does not count.
    if (state.status !== null) return json(response, state.status, { detail: 'as the test wants', thread_id: id })
    const credential = headers.authorization?.replace(/^Bearer /, '') ?? String(headers['x-api-key'] ?? '')
    if (!users.has(credential)) return json(response, 401, { detail: 'Unauthorized' })
    if (method !== 'GET' || id === undefined) return json(response, 404, { detail: 'Not Found' })
    const thread = decodeURIComponent(id)
    const readers = threads.get(thread)
    if (readers === undefined) return json(response, 404, { detail: `Thread ${thread} not found` })
    if (!readers.has(credential)) return json(response, 403, { detail: 'Forbidden' })
    json(response, 200, { thread_id: thread, status: 'idle', metadata: {}, values: { messages: [] } })
  })
  return {
    ...server,
    state,
    /** Lets a user read a thread. */
    share(thread: string, ...credentials: string[]): void {
      threads.set(thread, new Set([...(threads.get(thread) ?? []), ...credentials]))
      for (const credential of credentials) users.add(credential)
    },
    unshare: (thread: string, credential: string) => threads.get(thread)?.delete(credential),
    delete: (thread: string) => threads.delete(thread),
  }
}
