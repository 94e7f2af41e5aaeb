import { BoxofficeError, type ManagedProcess } from '@boxoffice/protocol'
import { type AgentClient, AgentUnreachable } from '../../agents/agent-client.ts'
import { agentOf } from '../../agents/agent-of.ts'
import type { DataplaneClient } from '../../dataplane/client.ts'
import { isPlaced, type PlacedSession, type Session } from '../../domain/session.ts'
import type { Store } from '../../store/store.ts'

export type ProcessRecordsOptions = {
  agents: Pick<Store['agents'], 'byId'>
  client: Pick<AgentClient, 'processes'>
  dataplane: DataplaneClient
  now: () => number
}

/** By then the agent has reported that something runs. */
const REPORTED_MS = 30_000

/**
 * The managed processes of sessions, ended ones too. Their agents are asked by the control API, so that any broker knows them: to ask the
 * dataplane is to use a session, and who only looks must not keep it from its TTL.
 */
export class ProcessRecords {
  readonly #options: ProcessRecordsOptions

  constructor(options: ProcessRecordsOptions) {
    this.#options = options
  }

  /** Of a session in which nothing is known to run, none where its agent cannot say. */
  async of(session: Session): Promise<readonly ManagedProcess[]> {
    if (!isPlaced(session)) return []
    try {
      return await this.#ask(session)
    } catch (thrown) {
      if (!session.busy && saysNothing(thrown)) return []
      throw thrown
    }
  }

  /** How many run; sessions that have been quiet for a while are not asked. */
  async running(session: Session): Promise<number> {
    if (!session.busy && this.#options.now() - session.lastActivityAt > REPORTED_MS) return 0
    return (await this.of(session)).filter(({ status }) => status === 'running').length
  }

  async #ask(session: PlacedSession): Promise<readonly ManagedProcess[]> {
    const { agents, client, dataplane } = this.#options
    try {
      return await client.processes(await agentOf(agents, session), session.sandboxId)
    } catch (thrown) {
      // Its agent is of before the question; what runs keeps the session anyway.
      if (!(session.busy && thrown instanceof BoxofficeError && thrown.code === 'NOT_FOUND')) throw thrown
      return dataplane.session(session.id).processes.list()
    }
  }
}

/** It is away, its sandbox has ended, or it is of before the question. */
const saysNothing = (thrown: unknown): boolean =>
  thrown instanceof AgentUnreachable || (thrown instanceof BoxofficeError && (thrown.status === 404 || thrown.status === 503))
