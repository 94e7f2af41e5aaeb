import { withoutSlash } from '@boxoffice/kit/without-slash'
import {
  AgentChallenge,
  type AgentHeartbeatRequest,
  AgentInstructions,
  BoxofficeError,
  ErrorEnvelope,
  errorCodeFrom,
  Jwks,
  PreviewAnswer,
  PreviewExchanged,
  type PreviewGrant,
  type PreviewRoute,
  type RegisterAgentRequest,
  RegisterAgentResponse,
  type SessionSecretsRequest,
  SessionSecretsResponse,
} from '@boxoffice/protocol'
import type { z } from 'zod'
import type { AgentIdentity } from './identity.ts'
import { pinnedFetch } from './pinned-fetch.ts'

/** What an agent asks of its broker. Failures are `BoxofficeError`; a broker that is away is BACKEND_UNAVAILABLE. */
export interface BrokerClient {
  register(request: RegisterAgentRequest, signal: AbortSignal): Promise<RegisterAgentResponse>
  heartbeat(agent: AgentCredential, request: AgentHeartbeatRequest, signal: AbortSignal): Promise<AgentInstructions>
  /** Values of secrets for a session that is on this agent. */
  secrets(agent: AgentCredential, request: SessionSecretsRequest, signal: AbortSignal): Promise<SessionSecretsResponse>
  jwks(): Promise<Jwks>
  /** What a preview host is; null: nothing, or nothing any more. */
  preview(agent: AgentCredential, host: string): Promise<PreviewRoute | null>
  /** Exchanges the code of a preview's link, once; null where it is no good. */
  enterPreview(agent: AgentCredential, host: string, code: string): Promise<PreviewGrant | null>
}

/** By what the broker knows an agent that has registered. */
export type AgentCredential = { id: string; token: string }

const TIMEOUT_MS = 10_000

export type BrokerClientOptions = {
  brokerUrl: string
  /** Asked for at each registration: one in a file may be replaced. */
  enrollToken: () => Promise<string>
  identity: AgentIdentity
  /** PEM: the broker is the one that shows it, whatever its name is. */
  certificate?: string | undefined
}

export const createBrokerClient = ({ brokerUrl, enrollToken, identity, certificate }: BrokerClientOptions): BrokerClient => {
  const get = certificate === undefined ? fetch : pinnedFetch(certificate)
  const base = withoutSlash(brokerUrl)
  const send = async <T>(path: string, schema: z.ZodType<T>, init: RequestInit & { signal?: AbortSignal }): Promise<T> => {
    const signal = AbortSignal.any([AbortSignal.timeout(TIMEOUT_MS), ...(init.signal ? [init.signal] : [])])
    const response = await get(base + path, { ...init, signal, redirect: 'error' }).catch((cause: unknown) => {
      throw new BoxofficeError('BACKEND_UNAVAILABLE', `the broker at ${base} cannot be reached`, { cause })
    })
    const body: unknown = await response.json().catch(() => undefined)
    if (!response.ok) throw refusal(response.status, body)
    const parsed = schema.safeParse(body)
    if (!parsed.success)
      throw new BoxofficeError('BACKEND_UNAVAILABLE', `the broker at ${base} gave an answer that is not valid`, { cause: parsed.error })
    return parsed.data
  }
  const post = (token: string, body: unknown, signal?: AbortSignal): RequestInit & { signal?: AbortSignal } => ({
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
    ...(signal && { signal }),
  })
  return {
    async register(request, signal) {
      const token = await enrollToken()
      const challenge = await send('/v1/agents/challenge', AgentChallenge, post(token, {}, signal)).catch((thrown: unknown) => {
        // A broker of before asks for no proof.
        if (thrown instanceof BoxofficeError && thrown.code === 'NOT_FOUND') return undefined
        throw thrown
      })
      const proof = challenge === undefined ? {} : { proof: identity.prove(challenge, request) }
      return send('/v1/agents/register', RegisterAgentResponse, post(token, { ...request, ...proof }, signal))
    },
    heartbeat: ({ id, token }, request, signal) =>
      send(`/v1/agents/${encodeURIComponent(id)}/heartbeat`, AgentInstructions, post(token, request, signal)),
    secrets: ({ id, token }, request, signal) =>
      send(`/v1/agents/${encodeURIComponent(id)}/secrets`, SessionSecretsResponse, post(token, request, signal)),
    jwks: () => send('/.well-known/jwks.json', Jwks, {}),
    preview: async ({ id, token }, host) =>
      (await send(`/v1/agents/${encodeURIComponent(id)}/previews/find`, PreviewAnswer, post(token, { host }))).preview,
    enterPreview: async ({ id, token }, host, code) =>
      (await send(`/v1/agents/${encodeURIComponent(id)}/previews/enter`, PreviewExchanged, post(token, { host, code }))).grant,
  }
}

const refusal = (status: number, body: unknown): BoxofficeError => {
  const envelope = ErrorEnvelope.safeParse(body)
  const code = envelope.success ? errorCodeFrom(envelope.data.error.code) : undefined
  if (envelope.success && code !== undefined) return new BoxofficeError(code, envelope.data.error.message)
  if (status === 401) return new BoxofficeError('UNAUTHENTICATED', 'the broker refused the credential')
  if (status === 404) return new BoxofficeError('NOT_FOUND', 'the broker does not know this agent')
  return new BoxofficeError('BACKEND_UNAVAILABLE', `the broker answered with status ${status}`)
}
