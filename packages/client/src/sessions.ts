import { type Binding, ListSessionsResponse, type Scope, type SessionState } from '@boxoffice/protocol'
import type { ControlPlane } from './control/control-plane.ts'
import { releaseSession } from './session.ts'

export type ListSessionsOptions = {
  state?: SessionState | undefined
  scopeType?: Scope['type'] | undefined
  scopeId?: string | undefined
  signal?: AbortSignal | undefined
}

/** The sessions that the caller may use; for operators all of the tenant. */
export class Sessions {
  readonly #controlPlane: ControlPlane

  constructor(controlPlane: ControlPlane) {
    this.#controlPlane = controlPlane
  }

  /** Pages are fetched as they are read. */
  async *walk({ state, scopeType, scopeId, signal }: ListSessionsOptions = {}): AsyncGenerator<Binding, void, undefined> {
    let cursor: string | null = null
    do {
      const search = new URLSearchParams({ limit: '200' })
      if (state !== undefined) search.set('state', state)
      if (scopeType !== undefined) search.set('scope_type', scopeType)
      if (scopeId !== undefined) search.set('scope_id', scopeId)
      if (cursor !== null) search.set('cursor', cursor)
      const page: ListSessionsResponse = await this.#controlPlane.json(`/v1/sandbox/sessions?${search}`, { signal }, ListSessionsResponse)
      yield* page.sessions
      cursor = page.next_cursor
    } while (cursor !== null)
  }

  async list(options?: ListSessionsOptions): Promise<Binding[]> {
    const sessions: Binding[] = []
    for await (const session of this.walk(options)) sessions.push(session)
    return sessions
  }

  /** Ends a session by its id; one that is gone is fine. */
  async release(id: string, options?: { keepWorkspace?: boolean; signal?: AbortSignal }): Promise<void> {
    await releaseSession(this.#controlPlane, id, options)
  }
}
