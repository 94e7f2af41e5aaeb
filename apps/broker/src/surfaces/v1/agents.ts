import {
  AgentChallenge,
  AgentHeartbeatRequest,
  AgentInstructions,
  BoxofficeError,
  ProviderReport,
  RegisterAgentRequest,
  RegisterAgentResponse,
  RelayPreference,
  SessionSecretsRequest,
  SessionSecretsResponse,
} from '@boxoffice/protocol'
import { z } from 'zod'
import { isRootOperator } from '../../access/principals.ts'
import { type AnyRoute, defineRoute } from '../../http/route.ts'
import type { Enrollment } from '../../registration/enrollment.ts'
import type { AgentRegistry } from '../../registration/registry.ts'
import type { SessionSecrets } from '../../secrets/session-secrets.ts'
import type { AgentRecord } from '../../store/store.ts'

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

export type AgentRoutesOptions = {
  registry: AgentRegistry
  enrollment: Enrollment
  secrets: SessionSecrets
  isHeard: (agent: AgentRecord) => boolean
}

/** Agents report here (contract 1); operators see them. */
export const agentRoutes = ({ registry, enrollment, secrets, isHeard }: AgentRoutesOptions): AnyRoute[] => [
  defineRoute({
    method: 'POST',
    path: '/v1/agents/challenge',
    summary: 'What a registration has to sign, once, within 60 s; the credential is an enroll token',
    auth: 'enroll',
    admit: (credential) => enrollment.admit(credential).then(() => {}),
    responses: { 200: { description: 'A nonce, and for whom', schema: AgentChallenge } },
    handle: async () => ({ status: 200, json: await registry.challenge() }),
  }),
  defineRoute({
    method: 'POST',
    path: '/v1/agents/register',
    summary: 'Register an agent; the credential is an enroll token',
    auth: 'enroll',
    admit: (credential) => enrollment.admit(credential).then(() => {}),
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
    method: 'POST',
    path: '/v1/agents/:id/secrets',
    summary: 'The values of secrets for a session that is on the agent; the credential is the agent token',
    auth: 'agent',
    admit: (credential, id) => registry.requireAgent(id, credential).then(() => {}),
    body: SessionSecretsRequest,
    responses: { 200: { description: 'By their names, as far as the session may have them', schema: SessionSecretsResponse } },
    async handle({ id, body }) {
      return { status: 200, json: await secrets.handOut(id, body.session_id, body.names) }
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
  defineRoute({
    method: 'POST',
    path: '/v1/agents/:id/rekey',
    summary: 'Forget the key of an agent that has lost it; its next registration brings another one',
    auth: 'operator',
    responses: { 204: { description: 'Forgotten' } },
    async handle({ principal, id, origin }) {
      if (!isRootOperator(principal)) throw new BoxofficeError('FORBIDDEN', 'agents are for operators of the root tenant')
      if (!(await registry.rekey(id, origin))) throw new BoxofficeError('NOT_FOUND', 'no such agent')
      return { status: 204 }
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
