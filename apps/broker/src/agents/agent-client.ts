import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { abortAfter } from '@boxoffice/kit/abort-after'
import { readAtMost } from '@boxoffice/node-http'
import {
  AgentInstance,
  BoxofficeError,
  type CreateSandboxRequest,
  ErrorEnvelope,
  errorCodeFrom,
  type Jwks,
  ListProcessesResponse,
  ListSandboxesResponse,
  type ManagedProcess,
  OrderResponse,
  type PreviewRoute,
  type ResumeRequest,
  type Revocations,
  SandboxEgressSet,
  SandboxRecord,
  SandboxReport,
  SandboxUntold,
  type SessionEnd,
  type SetSandboxEgress,
  type SuspendRequest,
  WorkspaceUsage,
} from '@boxoffice/protocol'
import type { z } from 'zod'
import type { AgentRecord } from '../store/store.ts'
import type { TokenIssuer } from '../tokens/issuer.ts'
import { failSlowConnect } from './slow-connect.ts'

/** The agent's control API (`packages/protocol/src/agents/control.ts`). Failures are `BoxofficeError`; an agent that is away is 503. */
export interface AgentClient {
  /** Idempotent by session id: a repeated call gives the sandbox that the first one made. */
  create(agent: AgentRecord, sessionId: string, request: CreateSandboxRequest, signal: AbortSignal): Promise<SandboxRecord>
  list(agent: AgentRecord): Promise<SandboxReport[]>
  /** What one sandbox is doing now; 404 `BINDING_NOT_FOUND` when the agent has none of that id. */
  report(agent: AgentRecord, sandboxId: string): Promise<SandboxReport>
  /**
   * The managed processes of one sandbox, ended ones too; it is not woken, and not used by it. Agents before 2026-12 answer
   * 404 `NOT_FOUND`.
   */
  processes(agent: AgentRecord, sandboxId: string): Promise<ManagedProcess[]>
  /**
   * `force`: a stop ends what runs; without it a sandbox in use is refused. An order whose session's `revision` is older than that of
   * another that has come is dropped, unless it is forced: then it gives the revision of that one.
   */
  suspend(agent: AgentRecord, sandboxId: string, order: SuspendRequest): Promise<number | undefined>
  resume(agent: AgentRecord, sandboxId: string, order: ResumeRequest): Promise<number | undefined>
  /**
   * Idempotent: one that is already gone is fine. What runs is told `reason`: the revocation that says the same may come later, on
   * another connection. Says what its agent has still to tell of the sandbox; undefined for nothing.
   */
  destroy(agent: AgentRecord, sandboxId: string, order: { reason: SessionEnd; keepWorkspace: boolean }): Promise<SandboxUntold | undefined>
  /** Idempotent: one that is not there is fine. 409 while a sandbox uses it. */
  removeWorkspace(agent: AgentRecord, workspaceId: string): Promise<void>
  /** Tells all that is exposed of a sandbox now. Agents before 2027 answer 404 `NOT_FOUND`. */
  replacePreviews(agent: AgentRecord, sandboxId: string, ports: readonly PreviewRoute[]): Promise<void>
  /** Says where its programs may connect to. Gives the revision of the order that holds then, which may be a later one. */
  setEgress(agent: AgentRecord, sandboxId: string, order: SetSandboxEgress): Promise<number>
  /** What a sandbox's workspace holds; the count ends at one entry above `maxEntries`. */
  workspaceUsage(agent: AgentRecord, sandboxId: string, maxEntries: number): Promise<WorkspaceUsage>
  /** Which start of which install answers at the agent's URL; undefined when the response says nothing of it. */
  instance(agent: AgentRecord, signal: AbortSignal): Promise<{ status: number; instance: AgentInstance | undefined }>
  revoke(agent: AgentRecord, revocations: Revocations): Promise<void>
  /** Tells all keys that count from now on, by a control token that was signed with one that counted before. */
  replaceKeys(agent: AgentRecord, jwks: Jwks, token: string, signal: AbortSignal): Promise<void>
  close(): void
}

/** Nothing listens where the agent said it would, or the connection broke: another agent may do better. */
export class AgentUnreachable extends BoxofficeError {
  constructor(agentId: string, cause?: unknown) {
    super('BACKEND_UNAVAILABLE', `agent ${agentId} cannot be reached`, { retryAfter: 2, cause })
  }
}

/** A response of the control API is a few hundred bytes a sandbox; more than this is not a response. */
const MAX_ANSWER_BYTES = 4 * 1024 * 1024
/** The same for processes, which are told with their arguments. */
const MAX_PROCESSES_BYTES = 64 * 1024 * 1024
const CALL_TIMEOUT_MS = 15_000

/** What calls agents by control tokens: one for an agent id, and what hears that the agent has refused it. */
export type ControlTokens = Pick<TokenIssuer, 'control' | 'refused'>

/** Calls agents over keep-alive HTTP; never follows a redirect [C-60]. */
export function httpAgentClient(tokens: ControlTokens): AgentClient {
  const agents = { http: new HttpAgent({ keepAlive: true }), https: new HttpsAgent({ keepAlive: true }) }
  const call = <T>(agent: AgentRecord, method: string, path: string, options: CallOptions<T>): Promise<T> =>
    send(agents, { agent, method, path, tokens, ...options })
  const path = (sandboxId: string) => `/control/v1/sandboxes/${encodeURIComponent(sandboxId)}`
  return {
    create: (agent, sessionId, body, signal) =>
      call(agent, 'PUT', `/control/v1/sessions/${encodeURIComponent(sessionId)}/sandbox`, { body, signal, answer: SandboxRecord }),
    list: async (agent) => (await call(agent, 'GET', '/control/v1/sandboxes', { answer: ListSandboxesResponse })).sandboxes,
    report: (agent, id) => call(agent, 'GET', path(id), { answer: SandboxReport }),
    processes: async (agent, id) =>
      (await call(agent, 'GET', `${path(id)}/processes`, { answer: ListProcessesResponse, limit: MAX_PROCESSES_BYTES })).processes,
    suspend: async (agent, id, body) => (await call(agent, 'POST', `${path(id)}/suspend`, { body, answer: OrderResponse })).overtaken_by,
    resume: async (agent, id, body) => (await call(agent, 'POST', `${path(id)}/resume`, { body, answer: OrderResponse })).overtaken_by,
    destroy: (agent, id, { reason, keepWorkspace }) =>
      call(agent, 'DELETE', `${path(id)}?reason=${reason}${keepWorkspace ? '&keep_workspace=true' : ''}`, {
        answer: SandboxUntold.optional(),
      }),
    removeWorkspace: (agent, id) => call(agent, 'DELETE', `/control/v1/workspaces/${encodeURIComponent(id)}`, {}),
    replacePreviews: (agent, id, ports) => call(agent, 'PUT', `${path(id)}/ports`, { body: { ports } }),
    setEgress: async (agent, id, body) => (await call(agent, 'PUT', `${path(id)}/egress`, { body, answer: SandboxEgressSet })).revision,
    workspaceUsage: (agent, id, maxEntries) =>
      call(agent, 'GET', `${path(id)}/workspace-usage?max_entries=${maxEntries}`, { answer: WorkspaceUsage }),
    async instance(agent, signal) {
      const { status, text } = await authenticated(agents, { agent, method: 'GET', path: '/control/v1/instance', tokens, signal })
      return { status, instance: status === 200 ? AgentInstance.safeParse(parseJson(text)).data : undefined }
    },
    revoke: (agent, revocations) => call(agent, 'POST', '/control/v1/revocations', { body: revocations }),
    replaceKeys: (agent, jwks, token, signal) => call(agent, 'PUT', '/control/v1/keys', { body: jwks, token, signal }),
    close: () => {
      agents.http.destroy()
      agents.https.destroy()
    },
  }
}

/** `token` in the place of the usual control token; `limit`: bytes of the answer, other than the usual. */
type CallOptions<T> = { body?: unknown; signal?: AbortSignal; answer?: z.ZodType<T>; token?: string; limit?: number }
type Call<T> = CallOptions<T> & { agent: AgentRecord; method: string; path: string; tokens: ControlTokens }
type Pools = { http: HttpAgent; https: HttpsAgent }

async function send<T>(pools: Pools, call: Call<T>): Promise<T> {
  const { status, text } = await authenticated(pools, call)
  const parsed = parseJson(text)
  if (status < 200 || status >= 300) throw refusal(call.agent, status, parsed)
  if (call.answer === undefined) return undefined as T
  const answer = call.answer.safeParse(parsed)
  if (answer.success) return answer.data
  throw new BoxofficeError('BACKEND_UNAVAILABLE', `agent ${call.agent.id} gave an answer that is not valid`, { cause: answer.error })
}

type Reply = { status: number; text: string }

/** With a token that was made before a clock jumped the agent refuses the call: it is made once more with a new one. */
async function authenticated<T>(pools: Pools, call: Call<T>): Promise<Reply> {
  const { agent, tokens, token = tokens.control(agent) } = call
  const reply = await exchange(pools, call, token)
  if (reply.status !== 401) return reply
  tokens.refused(agent.id, token)
  return exchange(pools, call, tokens.control(agent))
}

async function exchange<T>(pools: Pools, call: Call<T>, token: string, retry = true): Promise<Reply> {
  const url = new URL(call.path, call.agent.controlUrl)
  const payload = call.body === undefined ? undefined : JSON.stringify(call.body)
  const headers: Record<string, string | number> = { authorization: `Bearer ${token}` }
  if (payload !== undefined) Object.assign(headers, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(payload) })
  using limit = abortAfter(CALL_TIMEOUT_MS)
  const signal = call.signal ?? limit.signal
  const secure = url.protocol === 'https:'
  const request = secure
    ? httpsRequest(url, { agent: pools.https, method: call.method, headers, signal })
    : httpRequest(url, { agent: pools.http, method: call.method, headers, signal })
  try {
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      request.on('response', resolve).on('error', reject)
      failSlowConnect(request)
      request.end(payload)
    })
    const body = await readAtMost(response, { limit: call.limit ?? MAX_ANSWER_BYTES, tooLong: () => new Error('the answer is too large') })
    return { status: response.statusCode ?? 0, text: body.toString() }
  } catch (thrown) {
    // The agent closed a kept connection just as we used it; every call here is idempotent.
    if (retry && request.reusedSocket && !signal.aborted) return exchange(pools, call, token, false)
    throw new AgentUnreachable(call.agent.id, thrown)
  }
}

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** An agent's envelope keeps its code, message and details, which are written for callers; anything else says only that it failed. */
function refusal(agent: AgentRecord, status: number, body: unknown): BoxofficeError {
  const envelope = ErrorEnvelope.safeParse(body)
  const code = envelope.success ? errorCodeFrom(envelope.data.error.code) : undefined
  if (!envelope.success || code === undefined || code === 'INTERNAL' || code === 'UNAUTHENTICATED')
    return new BoxofficeError('BACKEND_UNAVAILABLE', `agent ${agent.id} failed (status ${status})`, { cause: body })
  const { message, details } = envelope.data.error
  return new BoxofficeError(code, message, details === undefined ? {} : { details })
}
