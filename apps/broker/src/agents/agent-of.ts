import { BoxofficeError } from '@boxoffice/protocol'
import type { AgentRecord, AgentStore } from '../store/store.ts'

/** The agent that has a session's sandbox. */
export async function agentOf(agents: Pick<AgentStore, 'byId'>, { agentId }: { agentId: string }): Promise<AgentRecord> {
  const agent = await agents.byId(agentId)
  if (agent === undefined) throw new BoxofficeError('BACKEND_UNAVAILABLE', 'the agent of this session is not known any more')
  return agent
}
