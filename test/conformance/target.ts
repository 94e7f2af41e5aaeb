import { randomUUID } from 'node:crypto'
import { Socket, type SocketOptions } from './socket.ts'

export type Mode = 'direct' | 'relay'

export type Grant = {
  session_id: string
  thread_id: string | null
  sandbox: { id: string; provider: string; http_base_url: string; ws_base_url: string }
  token: string
  expires_at: string
  warnings: string[]
  binding: Record<string, unknown> & { id: string; state: string; lease_expires_at: string }
  dataplane: { http_base_url: string; ws_base_url: string; mode: Mode }
  credentials: { token_type: string; access_token: string; expires_at: string; granted_capabilities: string[] }
  policy: Record<string, unknown>
}

export type Reply<Body = Record<string, unknown>> = { status: number; headers: Headers; bytes: Buffer; text: string; body: Body }

type Init = { headers?: Record<string, string>; body?: unknown; redirect?: RequestRedirect }

/** Principals beside the operator whose key the suite is given: A1 and A2 of one tenant, AX of another. */
const PRINCIPALS = {
  A1: { tenant: undefined, rights: [] },
  A2: { tenant: undefined, rights: [] },
  AX: { tenant: 'elsewhere', rights: [] },
  /** May name another actor than itself. */
  deputy: { tenant: undefined, rights: ['act_as'] },
} as const
export type PrincipalName = keyof typeof PRINCIPALS

/** The broker does not offer a profile of `test/conformance/broker.json`: what needs it cannot be tried there. */
export class MissingProfile extends Error {
  constructor(profile: string) {
    super(`the broker has no profile ${profile}; those of test/conformance/broker.json make this case run`)
  }
}

/** A broker that is known by its URL and an operator's key, and what a run leaves behind there until `close`. */
export class Target {
  readonly broker: string
  readonly key: string
  readonly mode: Mode
  readonly #run = randomUUID().slice(0, 8)
  readonly #sessions = new Set<string>()
  readonly #sockets = new Set<Socket>()
  readonly #keys = new Map<PrincipalName, Promise<{ id: string; key: string }>>()
  #threads = 0
  #shared: Promise<Grant> | undefined

  constructor({ broker, key, mode }: { broker: string; key: string; mode: Mode }) {
    this.broker = broker.replace(/\/$/, '')
    this.key = key
    this.mode = mode
  }

  /** A thread id that nobody has used. */
  thread(): string {
    return `conformance/${this.#run}/${++this.#threads}`
  }

  /** The id of a principal of this run, as its keys and tokens name it. */
  principal(name: PrincipalName): string {
    return `${name}-${this.#run}`
  }

  /** An API key of a principal, made at its first use. */
  async keyOf(name: PrincipalName): Promise<string> {
    const made = this.#keys.get(name) ?? this.#makeKey(name)
    this.#keys.set(name, made)
    return (await made).key
  }

  /** One request to the broker with the operator's key; `key: null` sends none. */
  async call<Body = Record<string, unknown>>(
    method: string,
    path: string,
    { key = this.key, ...init }: Init & { key?: string | null } = {},
  ): Promise<Reply<Body>> {
    return send<Body>(`${this.broker}${path}`, method, {
      ...init,
      headers: { ...(key === null ? {} : { authorization: `Bearer ${key}` }), ...init.headers },
    })
  }

  /** `POST /v1/sandbox/sessions`, waiting for the sandbox, through the relay when the run is one of the relay. */
  async neg(body: Record<string, unknown>, { headers, key }: { headers?: Record<string, string>; key?: string | null } = {}) {
    const reply = await this.call<Grant>('POST', '/v1/sandbox/sessions', {
      ...(key === undefined ? {} : { key }),
      headers: { prefer: 'wait=60', ...headers },
      body: { ...(this.mode === 'relay' ? { relay: 'always' } : {}), ...body },
    })
    if (reply.status === 400 && typeof body.profile === 'string' && reply.text.includes('there is no profile'))
      throw new MissingProfile(body.profile)
    if (reply.status === 200) this.#sessions.add(reply.body.session_id)
    return reply
  }

  /** A new session, or the one that `fields` name; fails with the refusal otherwise. */
  async ensure(fields: Record<string, unknown> = {}, key?: string): Promise<Grant> {
    const scoped = 'scope' in fields ? fields : { thread_id: this.thread(), ...fields }
    const reply = await this.neg({ mode: 'ensure', ...scoped }, key === undefined ? {} : { key })
    if (reply.status !== 200) throw new Error(`ensure: ${reply.status} ${reply.text}`)
    return reply.body
  }

  /** One session for all cases that leave nothing behind in it. */
  shared(): Promise<Grant> {
    this.#shared ??= this.ensure()
    return this.#shared
  }

  session(method: string, id: string, suffix = '', init: Init & { key?: string | null } = {}) {
    return this.call(method, `/v1/sandbox/sessions/${id}${suffix}`, init)
  }

  release(id: string): Promise<Reply> {
    return this.session('DELETE', id)
  }

  /** A dataplane request with the session's token; `token: null` sends none. */
  dp<Body = Record<string, unknown>>(
    grant: Grant,
    method: string,
    path: string,
    { token = grant.token, ...init }: Init & { token?: string | null } = {},
  ): Promise<Reply<Body>> {
    return send<Body>(`${grant.sandbox.http_base_url}${path}`, method, {
      ...init,
      headers: { ...(token === null ? {} : { authorization: `Bearer ${token}` }), ...init.headers },
    })
  }

  /** `POST D/exec`; `fields` is the command, or the whole request. */
  exec(grant: Grant, fields: string | Record<string, unknown>) {
    return this.dp(grant, 'POST', '/exec', { body: typeof fields === 'string' ? { command: fields } : fields })
  }

  /** A dataplane socket; with the session's token in its header unless told otherwise. */
  socket(grant: Grant, path: '/exec/ws' | '/shell/ws' | (string & {}), options: SocketOptions = {}): Socket {
    const socket = new Socket(`${grant.sandbox.ws_base_url}${path}`, { token: grant.token, ...options })
    this.#sockets.add(socket)
    return socket
  }

  /** Ends what the run made. */
  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.terminate()
    await Promise.all([...this.#sessions].map((id) => this.release(id)))
    for (const made of this.#keys.values()) await this.call('DELETE', `/v1/keys/${(await made).id}`)
  }

  async #makeKey(name: PrincipalName): Promise<{ id: string; key: string }> {
    const { tenant, rights } = PRINCIPALS[name]
    const body = { name: `conformance ${name}`, principal: this.principal(name), role: 'user', rights, ...(tenant && { tenant }) }
    const reply = await this.call<{ id: string; key: string }>('POST', '/v1/keys', { body })
    if (reply.status !== 201) throw new Error(`POST /v1/keys: ${reply.status} ${reply.text}`)
    return reply.body
  }
}

const isRaw = (body: unknown): body is string | Uint8Array | FormData =>
  typeof body === 'string' || body instanceof Uint8Array || body instanceof FormData

async function send<Body>(url: string, method: string, { headers = {}, body, redirect }: Init): Promise<Reply<Body>> {
  const json = body !== undefined && !isRaw(body)
  const response = await fetch(url, {
    method,
    headers: { ...(json ? { 'content-type': 'application/json' } : {}), ...headers },
    ...(body === undefined ? {} : { body: json ? JSON.stringify(body) : (body as BodyInit) }),
    ...(redirect === undefined ? {} : { redirect }),
  })
  const bytes = Buffer.from(await response.arrayBuffer())
  const text = bytes.toString()
  let parsed: unknown
  try {
    parsed = JSON.parse(text)
  } catch {
    parsed = undefined // not JSON: `text` has it
  }
  return { status: response.status, headers: response.headers, bytes, text, body: parsed as Body }
}
