import { randomBytes, randomInt, randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import {
  type AgentInstance,
  type AgentInstructions,
  CreateSandboxRequest,
  type JournalEntry,
  type Jwks,
  newSandboxId,
  type PreviewRoute,
  type RegisterAgentRequest,
  RegisterAgentResponse,
  ReplacePreviews,
  type Revocations,
  type SandboxEgressSet,
  type SandboxRecord,
  type SandboxReport,
  type SandboxUntold,
  SetSandboxEgress,
} from '@boxoffice/protocol'
import { createLocalJWKSet, jwtVerify } from 'jose'

/**
 * An agent without sandboxes: the control API over real HTTP, registration and heartbeats, and hooks for what can go wrong.
 * A second implementation of `packages/protocol/src/agents/control.ts`, not a mock.
 */
export type FakeAgent = Awaited<ReturnType<typeof startFakeAgent>>

/** One that waits in the pool has the session id `''`. */
export type Kept = SandboxRecord & {
  suspended: 'freeze' | 'stop' | null
  /** The last order. */
  egress: SetSandboxEgress
  activity: SandboxReport['activity']
  request: CreateSandboxRequest
}
type Hooks = {
  create: (sessionId: string) => Promise<Refusal | undefined>
  destroy: () => Promise<Refusal | undefined>
  /** The number of the last entry of an ended sandbox that is still to be told. */
  untold: () => number | undefined
  removeWorkspace: () => Promise<Refusal | undefined>
  suspend: () => Refusal | undefined
  egress: () => Promise<Refusal | undefined>
  /** Of an order that was dropped. */
  overtaken: (order: { revision?: number }) => { overtaken_by?: number }
}
type Refusal = { status: number; code: string; message: string; details?: Record<string, unknown> }

export type FakeAgentOptions = {
  brokerUrl: string
  enrollToken: string
  installId?: string
  instanceId?: string
  /** Of an earlier registration, by what stands for the same process. */
  agentToken?: string
  suspend?: ('freeze' | 'stop')[]
  available?: boolean
  providerName?: string
  /** Whether its provider has images; undefined: it does not say. */
  images?: boolean
  /** Whether its sandboxes can have a proxy, which is then what they have for `network: on`, too. */
  egress?: boolean
  reserved?: 'mcp'
  heartbeat?: boolean
  /** Sandboxes of an earlier run of this install. */
  sandboxes?: Map<string, Kept>
}

export async function startFakeAgent(options: FakeAgentOptions) {
  const sandboxes = options.sandboxes ?? new Map<string, Kept>()
  const installId = options.installId ?? randomUUID()
  const instanceId = options.instanceId ?? randomBytes(6).toString('hex')
  const calls: string[] = []
  /** Suspends and resumes, as they were sent. */
  const orders: { action: string; mode?: string; revision?: number }[] = []
  const revoked = new Map<string, string>()
  /** By session and actor: what its earlier tokens are held to. */
  const narrowed = new Map<string, { caps: string[]; before: number }>()
  /** Awaited before a sandbox is made; a test holds it to make a slow provider, or throws a refusal. */
  const hooks: Hooks = {
    create: async () => undefined,
    destroy: async () => undefined,
    untold: () => undefined,
    removeWorkspace: async () => undefined,
    suspend: () => undefined,
    egress: async () => undefined,
    overtaken: () => ({}),
  }
  const provider = {
    name: options.providerName ?? 'fake',
    isolation: 'none',
    available: options.available ?? true,
    reason: null as string | null,
    ...(options.reserved === undefined ? {} : { reserved: options.reserved }),
    ...(options.images === undefined && options.egress === undefined
      ? {}
      : { capabilities: { ...ABILITIES, ...(options.images !== undefined && { images: options.images }), egress: options.egress } }),
  }
  /** By sandbox, what of it is exposed, as it was told last. */
  const previews = new Map<string, PreviewRoute[]>()
  const making = new Map<string, Promise<Kept | Refusal>>()
  let created = 0
  let registration: RegisterAgentResponse | undefined
  let brokerKeys = createLocalJWKSet({ keys: [] })
  let waiters: { test: () => boolean; resolve: () => void }[] = []
  const notify = () => {
    waiters = waiters.filter(({ test, resolve }) => {
      if (!test()) return true
      resolve()
      return false
    })
  }

  const server = createServer((request, response) => void answer(request, response))
  // An address of its own: after its end the port at 127.0.0.1 may be another test's at once, and the agent looks as if it still were there.
  const host = `127.${[0, 0, 0].map(() => randomInt(1, 255)).join('.')}`
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  const url = `http://${host}:${(server.address() as AddressInfo).port}`

  async function answer(request: IncomingMessage, response: ServerResponse) {
    const { pathname, searchParams } = new URL(request.url ?? '/', url)
    // The relay's probe, which is no call.
    if (pathname.endsWith('/ping')) return void response.writeHead(204).end()
    calls.push(`${request.method} ${pathname}${searchParams.size > 0 ? `?${searchParams}` : ''}`)
    notify()
    const body = await readJson(request)
    const reply = (status: number, json?: unknown) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(json === undefined ? undefined : JSON.stringify(json))
      notify()
    }
    if (!(await isBroker(request))) return reply(401, envelope({ status: 401, code: 'UNAUTHENTICATED', message: 'control token' }))
    const [, , , kind, id = '', action] = pathname.split('/')
    if (kind === 'sessions' && action === 'sandbox') {
      const made = await make(id, CreateSandboxRequest.parse(body))
      return 'code' in made ? reply(made.status, envelope(made)) : reply(200, recordOf(made))
    }
    if (kind === 'revocations') {
      applyRevocations(body as Revocations)
      return reply(204)
    }
    if (kind === 'instance') return reply(200, { install_id: installId, instance_id: instanceId } satisfies AgentInstance)
    if (kind === 'keys') {
      brokerKeys = createLocalJWKSet(body as Jwks)
      return reply(204)
    }
    if (kind === 'workspaces') {
      const refusal = await hooks.removeWorkspace()
      return refusal === undefined ? reply(204) : reply(refusal.status, envelope(refusal))
    }
    if (kind === 'sandboxes' && id === '') return reply(200, { sandboxes: reports() })
    const sandbox = sandboxes.get(id)
    if (request.method === 'DELETE') {
      const refusal = await hooks.destroy()
      if (refusal !== undefined) return reply(refusal.status, envelope(refusal))
      sandboxes.delete(id)
      const seq = hooks.untold()
      return seq === undefined ? reply(204) : reply(200, { instance_id: instanceId, journal_seq: seq } satisfies SandboxUntold)
    }
    if (action === 'ports') {
      previews.set(id, ReplacePreviews.parse(body).ports)
      return reply(204)
    }
    if (action === 'egress') {
      const refusal = await hooks.egress()
      if (refusal !== undefined) return reply(refusal.status, envelope(refusal))
    }
    if (sandbox === undefined) return reply(404, envelope({ status: 404, code: 'BINDING_NOT_FOUND', message: 'no such sandbox' }))
    if (action === 'egress') {
      const order = SetSandboxEgress.parse(body)
      if (order.revision >= sandbox.egress.revision) sandbox.egress = order
      return reply(200, { revision: sandbox.egress.revision } satisfies SandboxEgressSet)
    }
    if (action === 'suspend' || action === 'resume') orders.push({ action, ...(body as object) })
    if (action === 'suspend') {
      const refusal = hooks.suspend() ?? inUse(sandbox)
      if (refusal !== undefined) return reply(refusal.status, envelope(refusal))
      sandbox.suspended = (body as { mode: 'freeze' | 'stop' }).mode
    }
    if (action === 'resume') sandbox.suspended = null
    reply(200, { ...reportOf(sandbox), ...(action === undefined ? {} : hooks.overtaken(body as object)) })
  }

  async function make(sessionId: string, request: CreateSandboxRequest): Promise<Kept | Refusal> {
    const existing = [...sandboxes.values()].find((sandbox) => sandbox.session_id === sessionId)
    if (existing !== undefined) return existing
    const pending = making.get(sessionId)
    if (pending !== undefined) return pending
    const work = (async () => {
      const refusal = await hooks.create(sessionId)
      if (refusal !== undefined) return refusal
      created++
      // As the real one: nothing is left of a create that comes after the end of its session.
      if (revoked.has(sessionId)) return { status: 410, code: 'SESSION_EXPIRED', message: 'the session has ended' }
      const sandbox: Kept = {
        sandbox_id: newSandboxId(),
        session_id: sessionId,
        provider: provider.name,
        isolation: 'none',
        generation: 1,
        state: 'running',
        profile_hash: '0'.repeat(16),
        from_pool: false,
        network: options.egress && request.profile.network === 'on' ? 'proxy' : request.profile.network,
        egress: { policy: request.profile.egress, revision: 0 },
        suspended: null,
        activity: { running: 0, attached: 0, idle_ms: 0 },
        request,
      }
      sandboxes.set(sandbox.sandbox_id, sandbox)
      return sandbox
    })().finally(() => making.delete(sessionId))
    making.set(sessionId, work)
    return work
  }

  async function isBroker(request: IncomingMessage): Promise<boolean> {
    if (registration === undefined) return false
    const token = (request.headers.authorization ?? '').slice('Bearer '.length)
    return jwtVerify(token, brokerKeys, { issuer: registration.issuer, audience: registration.agent_id }).then(
      ({ payload }) => payload.sub === 'broker' && (payload.exp ?? 0) - (payload.iat ?? 0) <= 60,
      () => false,
    )
  }

  const reportOf = (sandbox: Kept): SandboxReport => ({
    sandbox_id: sandbox.sandbox_id,
    session_id: sandbox.session_id === '' ? null : sandbox.session_id,
    state:
      sandbox.state === 'lost' ? 'lost' : sandbox.suspended === 'freeze' ? 'frozen' : sandbox.suspended === 'stop' ? 'stopped' : 'running',
    generation: sandbox.generation,
    profile_hash: sandbox.profile_hash,
    activity: sandbox.activity,
    ...(sandbox.network === 'proxy' ? { egress_revision: sandbox.egress.revision } : {}),
    reason: sandbox.state === 'lost' ? 'container died' : null,
  })
  const reports = () => [...sandboxes.values()].map(reportOf)

  function applyRevocations({ sessions, grants = [] }: Revocations) {
    for (const { session_id, reason } of sessions) revoked.set(session_id, reason)
    for (const { session_id, sub, caps, before } of grants) narrowed.set(`${session_id} ${sub}`, { caps, before })
  }

  function obey({ decisions, revocations, jwks }: AgentInstructions) {
    if (jwks !== undefined) brokerKeys = createLocalJWKSet(jwks)
    applyRevocations(revocations)
    for (const { sandbox_id, action } of decisions) if (action === 'destroy') sandboxes.delete(sandbox_id)
    notify()
  }

  const providerReport = () => ({ ...provider, suspend: options.suspend ?? (['freeze', 'stop'] as ('freeze' | 'stop')[]) })

  /** It says that the same process comes again. */
  const agentToken = () => registration?.agent_token ?? options.agentToken

  async function register(fields: Partial<RegisterAgentRequest> = {}, enrollToken = options.enrollToken): Promise<Response> {
    const response = await post('/v1/agents/register', enrollToken, {
      install_id: installId,
      instance_id: instanceId,
      public_url: url,
      control_url: url,
      relay: 'auto',
      provider: providerReport(),
      sandboxes: reports(),
      clock: new Date().toISOString(),
      version: '0.0.0',
      ...(agentToken() === undefined ? {} : { agent_token: agentToken() }),
      ...fields,
    })
    if (response.ok) {
      registration = RegisterAgentResponse.parse(await response.clone().json())
      brokerKeys = createLocalJWKSet(registration.jwks)
      obey(registration)
    }
    return response
  }

  async function heartbeat(changed?: SandboxReport[], journal?: JournalEntry[]): Promise<AgentInstructions> {
    const response = await post(`/v1/agents/${registration?.agent_id}/heartbeat`, registration?.agent_token ?? '', {
      instance_id: instanceId,
      provider: providerReport(),
      sandboxes: changed ?? reports(),
      partial: changed !== undefined,
      ...(journal === undefined ? {} : { journal }),
    })
    if (!response.ok) throw new Error(`heartbeat: ${response.status}`)
    const instructions = (await response.json()) as AgentInstructions
    obey(instructions)
    return instructions
  }

  const post = (path: string, token: string, body: unknown) =>
    fetch(`${options.brokerUrl}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })

  const first = await register()
  if (!first.ok) throw new Error(`register: ${first.status} ${await first.text()}`)
  const timer = options.heartbeat === false ? undefined : setInterval(() => void heartbeat().catch(() => {}), 500)

  return {
    url,
    calls,
    orders,
    sandboxes,
    revoked,
    narrowed,
    previews,
    hooks,
    provider,
    installId,
    instanceId,
    register,
    heartbeat,
    post,
    get id() {
      return registration?.agent_id ?? ''
    },
    get registration() {
      if (registration === undefined) throw new Error('not registered')
      return registration
    },
    get created() {
      return created
    },
    /** Resolves when `test` holds after an answer or an instruction. */
    until: (test: () => boolean) => (test() ? Promise.resolve() : new Promise<void>((resolve) => waiters.push({ test, resolve }))),
    async close() {
      clearInterval(timer)
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const ABILITIES = { limits: [], not_enforced: [], network: true, extra_mounts: true, oci_runtimes: [] }

/** As the real one: what runs or is attached is not suspended, whatever the broker knew. */
const inUse = ({ activity: { running, attached } }: Kept): Refusal | undefined =>
  running + attached > 0 ? { status: 409, code: 'BINDING_CONFLICT', message: 'the sandbox is in use' } : undefined

const envelope = ({ code, message, details }: Refusal) => ({
  error: { code, message, retryable: false, request_id: 'req_fake', details },
  detail: message,
})

const recordOf = ({ suspended: _, activity: __, request: ___, egress: ____, ...record }: Kept): SandboxRecord => record

async function readJson(request: IncomingMessage): Promise<unknown> {
  let text = ''
  for await (const chunk of request) text += chunk
  return text === '' ? undefined : JSON.parse(text)
}
