import {
  AgentHeartbeatRequest,
  AgentInstructions,
  ProviderReport,
  RegisterAgentRequest,
  RegisterAgentResponse,
  RelayPreference,
} from '@boxoffice/protocol'
import { z } from 'zod'
import type { AgentRegistry } from '../agents/registry.ts'
import type { AgentRecord } from '../store/store.ts'
import { type AnyRoute, defineRoute } from './route.ts'

const Agent = z.object({
  id: z.string(),
  instance_id: z.string(),
  public_url: z.string(),
  relay: RelayPreference,
  provider: ProviderReport,
  version: z.string(),
  clock_drift_ms: z.number(),
  registered_at: z.string(),
  last_seen_at: z.string(),
  /** It has reported lately and is given sandboxes if its provider is available. */
  connected: z.boolean(),
})

/** Agents report here (contract 1); operators see them. */
export const agentRoutes = (registry: AgentRegistry, isHeard: (agent: AgentRecord) => boolean): AnyRoute[] => [
  defineRoute({
    method: 'POST',
    path: '/v1/agents/register',
    summary: 'Register an agent; the credential is the enroll token',
    auth: 'enroll',
    admit: (credential) => registry.requireEnrolled(credential),
    body: RegisterAgentRequest,
    responses: { 200: { description: 'What the agent is told', schema: RegisterAgentResponse } },
    async handle({ credential, body, origin }) {
      return { status: 200, json: await registry.register(credential, body, origin) }
    },
  }),
  defineRoute({
    method: 'POST',
    path: '/v1/agents/:id/heartbeat',
    summary: 'Report sandboxes; the credential is the agent token',
    auth: 'agent',
    admit: (credential, id) => registry.requireAgent(id, credential).then(() => {}),
    body: AgentHeartbeatRequest,
    responses: { 200: { description: 'What the agent is told', schema: AgentInstructions } },
    async handle({ credential, id, body }) {
      return { status: 200, json: await registry.heartbeat(id, credential, body) }
    },
  }),
  defineRoute({
    method: 'GET',
    path: '/v1/agents',
    summary: 'List agents',
    auth: 'operator',
    responses: { 200: { description: 'All agents', schema: z.object({ agents: z.array(Agent) }) } },
    async handle() {
      const agents = await registry.list()
      return { status: 200, json: { agents: agents.map((agent) => toAgent(agent, isHeard(agent))) } }
    },
  }),
]

const toAgent = (agent: AgentRecord, connected: boolean): z.infer<typeof Agent> => ({
  id: agent.id,
  instance_id: agent.instanceId,
  public_url: agent.publicUrl,
  relay: agent.relay,
  provider: agent.provider,
  version: agent.version,
  clock_drift_ms: agent.clockDriftMs,
  registered_at: new Date(agent.registeredAt).toISOString(),
  last_seen_at: new Date(agent.lastSeenAt).toISOString(),
  connected,
})
