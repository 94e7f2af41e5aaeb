import { BoxofficeError, type RelayPreference } from '@boxoffice/protocol'
import type { PlacedSession } from '../domain/session.ts'
import type { AgentRecord } from '../store/store.ts'
import { relayPath, sandboxBase } from './endpoint.ts'

export type DataplaneMode = 'direct' | 'relay'
export type DataplaneUrls = { http_base_url: string; ws_base_url: string; mode: DataplaneMode }

/** The mode that two preferences make; undefined when one says always and the other never. */
export function modeOf(requested: RelayPreference, agent: RelayPreference): DataplaneMode | undefined {
  const preferences = [requested, agent]
  if (!preferences.includes('always')) return 'direct'
  return preferences.includes('never') ? undefined : 'relay'
}

/** For who asks by a request, before anything is given: 503 when the agent's setting does not allow what is requested. */
export function requireMode(requested: RelayPreference, agent: AgentRecord): DataplaneMode {
  const mode = modeOf(requested, agent.relay)
  if (mode !== undefined) return mode
  throw new BoxofficeError(
    'BACKEND_UNAVAILABLE',
    requested === 'never'
      ? 'relay: the agent of this session cannot be reached directly; ask with "auto" or "always"'
      : 'relay: the agent of this session is reached directly only; ask with "auto" or "never"',
    { retryAfter: 5, details: { relay: requested, agent_relay: agent.relay } },
  )
}

/** A session at its agent, and what the request says about the relay; null: as the session has it, as far as the agent allows. */
export type Reachable = { session: PlacedSession; agent: AgentRecord; relay: RelayPreference | null }

export type DataplaneOf = (reachable: Reachable) => DataplaneUrls

/**
 * Where a session's dataplane is: at its agent, or at this broker. Made from what agent and broker say of themselves, never from a
 * `Host` header [C-43].
 */
export const dataplaneAt =
  (brokerUrl: string): DataplaneOf =>
  ({ session, agent, relay }) => {
    const mode = relay === null ? modeNow(session, agent) : requireMode(relay, agent)
    const http = mode === 'relay' ? brokerUrl + relayPath(session.id) : agent.publicUrl + sandboxBase(session.sandboxId)
    return { http_base_url: http, ws_base_url: `ws${http.slice(4)}`, mode }
  }

/** As the session has it, unless the agent's setting has changed since it was made as it was wished. */
export const modeNow = (session: Pick<PlacedSession, 'relay'>, agent: Pick<AgentRecord, 'relay'>): DataplaneMode =>
  modeOf(session.relay, agent.relay) ?? (agent.relay === 'always' ? 'relay' : 'direct')
