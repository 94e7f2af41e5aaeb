import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { BoundedCache } from '@boxoffice/kit/bounded-cache'
import { readAtMost } from '@boxoffice/node-http'
import {
  BoxofficeError,
  CAPABILITIES,
  type ExecRequest,
  ExecResult,
  ListFilesResponse,
  ListProcessesResponse,
  ManagedProcess,
  newRequestId,
  type StartProcessRequest,
  UploadResponse,
} from '@boxoffice/protocol'
import type { z } from 'zod'
import { agentOf } from '../agents/agent-of.ts'
import { sandboxPath } from '../agents/endpoint.ts'
import { withoutNamed } from '../domain/capabilities.ts'
import { requireThere } from '../domain/refusals.ts'
import type { PlacedSession } from '../domain/session.ts'
import type { AgentTls } from '../relay/http1/agent-tls.ts'
import { createUpstream, DialFailed, dialing } from '../relay/http1/upstream.ts'
import { refusalOf } from '../relay/ws/agent-websocket.ts'
import type { Store } from '../store/store.ts'
import type { TokenIssuer } from '../tokens/issuer.ts'
import { type Access, type DataplaneActor, type Held, heldTo, type KnownToken, RENEW_BEFORE_MS } from './access.ts'
import { type LineSocket, type LineSocketHandlers, openLineSocket } from './line-socket.ts'
import { openProcessSocket, type ProcessSocket, type ProcessSocketHandlers, type ProcessStart } from './process-socket.ts'
import { openWatchSocket, type WatchHandlers, type WatchSocket } from './watch-socket.ts'

export type DataplaneClientOptions = {
  store: { sessions: Pick<Store['sessions'], 'byId'>; agents: Pick<Store['agents'], 'byId'>; grants: Pick<Store['grants'], 'find'> }
  issuer: Pick<TokenIssuer, 'session' | 'kid'>
  now: () => number
  /** Milliseconds that never jump. */
  monotonic: () => number
  agentTls?: AgentTls
}

/** The broker's own use of the dataplane, for the surfaces that run things for their callers: the same routes as every client's. */
export interface DataplaneClient {
  /**
   * The dataplane of a session, which is read again at each call. Failures are `BoxofficeError`. `actor`: who its agent is told that asks;
   * default: the broker, which may everything.
   */
  session(sessionId: string, actor?: DataplaneActor): SessionDataplane
  close(): void
}

export type DataplaneRequest = {
  method: 'GET' | 'HEAD' | 'POST' | 'DELETE'
  /** Below `http_base_url`, with its query: `/files?path=a`. */
  path: string
  headers?: Readonly<Record<string, string>>
  json?: unknown
  body?: Buffer | Readable
  signal?: AbortSignal | undefined
  /** Statuses above 299 that are answers all the same; 304 is one always. */
  accepts?: (status: number) => boolean
}

type Options = { signal?: AbortSignal | undefined }

export interface SessionDataplane {
  /** One request; resolves with a successful answer (or 304), whose body the caller reads. */
  request(request: DataplaneRequest): Promise<IncomingMessage>
  /** A new command or terminal, or (`attach` in `start`) one that runs. Mends lost connections by itself, and renews its token. */
  openProcess(start: ProcessStart, handlers: ProcessSocketHandlers, options?: Options): Promise<ProcessSocket>
  /** The same, its JSON checked by a schema. */
  json<T>(request: DataplaneRequest, schema: z.ZodType<T>): Promise<T>
  /** The same, for what has no answer but that it is done. */
  done(request: DataplaneRequest): Promise<void>
  /** Changes of a directory; `asked` as of `WS W/files/watch`. A lost connection ends it. */
  watch(asked: Record<string, string | boolean | undefined>, handlers: WatchHandlers): Promise<WatchSocket>
  exec(request: ExecRequest, options?: Options): Promise<ExecResult>
  readonly processes: {
    start(request: StartProcessRequest, options?: Options): Promise<ManagedProcess>
    list(options?: Options): Promise<ManagedProcess[]>
    get(processId: string, options?: Options): Promise<ManagedProcess>
    /** Resolves when it has ended; one that is not there is fine. */
    stop(processId: string, options?: Options): Promise<void>
    /** Its stdin and stdout as lines. Mends lost connections by itself, and renews its token. */
    attach(processId: string, handlers: LineSocketHandlers, options?: Options & { takeover?: boolean }): Promise<LineSocket>
  }
  readonly files: {
    upload(path: string, content: Buffer | Readable, options?: Options & { mode?: string; overwrite?: boolean }): Promise<UploadResponse>
    /** The whole content, at most `limit` bytes of it; more is PAYLOAD_TOO_LARGE. */
    download(path: string, options?: Options & { limit?: number }): Promise<Buffer>
    /** One page; `query` as of `GET D/files`. */
    list(query?: Record<string, string | number | boolean>, options?: Options): Promise<ListFilesResponse>
    mkdir(path: string, options?: Options): Promise<void>
    remove(path: string, options?: Options & { recursive?: boolean }): Promise<void>
  }
}

/** For whom the tokens are that the broker makes for itself. */
const BROKER: Held = { actor: 'broker', capabilities: withoutNamed(CAPABILITIES), notBefore: 0 }
const NOT_MODIFIED = 304
const MAX_TOKENS = 10_000
/** Two outputs of 16 MiB, as base64, and what is around them. */
const MAX_JSON_BYTES = 64 * 1024 * 1024
const MAX_DOWNLOAD_BYTES = 100 * 1024 * 1024

export function createDataplaneClient({ store, issuer, now, monotonic, agentTls }: DataplaneClientOptions): DataplaneClient {
  const upstream = createUpstream(agentTls)
  const tokens = new BoundedCache<string, KnownToken>(MAX_TOKENS)

  const tokenFor = (session: PlacedSession, held: Held): KnownToken => {
    const key = keyOf(session, held)
    const known = tokens.get(key)
    if (known !== undefined && known.kid === issuer.kid && known.expiresAt - RENEW_BEFORE_MS > monotonic()) return known
    const { token, expiresAt } = issuer.session(session, held.actor, held.capabilities, held.notBefore)
    const made = { token, expiresAt: monotonic() + expiresAt * 1000 - now(), kid: issuer.kid }
    tokens.set(key, made)
    return made
  }

  const heldNow = async (session: PlacedSession, actor: DataplaneActor): Promise<Held> => {
    const held = heldTo(session.hasGrants ? await store.grants.find(session.id, actor.actor) : undefined, actor)
    if (held.capabilities.length > 0) return held
    throw new BoxofficeError('FORBIDDEN', 'the caller may not use this session any more')
  }

  const access = async ({ sessionId, actor }: Used): Promise<Access> => {
    const session = requireThere(await store.sessions.byId(sessionId))
    const agent = await agentOf(store.agents, session)
    const held = actor === undefined ? BROKER : await heldNow(session, actor)
    const known = tokenFor(session, held)
    const refused = (): void => {
      if (tokens.get(keyOf(session, held)) === known) tokens.delete(keyOf(session, held))
    }
    return { session, agent, ...known, refused }
  }

  const send = async (used: Used, request: DataplaneRequest): Promise<IncomingMessage> => {
    const { method, path, json, body, signal } = request
    // Until the agent takes it, and where it never does, nobody else hears that its sender has left.
    if (body !== undefined && !Buffer.isBuffer(body)) body.on('error', () => {})
    const { session, agent, token, refused } = await access(used)
    const payload = json === undefined ? body : Buffer.from(JSON.stringify(json))
    const headers = {
      ...request.headers,
      authorization: `Bearer ${token}`,
      'x-request-id': newRequestId(),
      ...(json === undefined ? {} : { 'content-type': 'application/json' }),
      ...(Buffer.isBuffer(payload) ? { 'content-length': payload.length } : {}),
    }
    const once = (): Promise<IncomingMessage> =>
      new Promise((resolve, reject) => {
        const request = upstream.request(agent, {
          method,
          path: sandboxPath(session.sandboxId, path.slice(1), ''),
          headers,
          ...(signal === undefined ? {} : { signal }),
        })
        let connected = false
        const begin = (): void => {
          connected = true
          if (payload === undefined || Buffer.isBuffer(payload)) request.end(payload)
          else pipeline(payload, request).catch(reject)
        }
        request.once('socket', (socket) => {
          if (socket.connecting) socket.once('connect', begin)
          else begin()
        })
        request.once('response', resolve)
        request.on('error', (cause) => {
          if (signal?.aborted) reject(signal.reason)
          else reject(connected ? broken(cause) : new DialFailed('no connection', { cause }))
        })
      })
    const response = await dialing(once, signal ?? NEVER)
    if (response.statusCode === 401) refused()
    const { statusCode: status = 0 } = response
    if (status >= 300 && status !== NOT_MODIFIED && request.accepts?.(status) !== true) throw await refusalOf(response)
    return response
  }

  const json = async <T>(used: Used, request: DataplaneRequest, schema: z.ZodType<T>): Promise<T> => {
    const parsed = schema.safeParse(JSON.parse((await readAll(await send(used, request), MAX_JSON_BYTES)).toString()))
    if (parsed.success) return parsed.data
    throw new BoxofficeError('BACKEND_UNAVAILABLE', 'the agent of this session gave an answer that is not valid', { cause: parsed.error })
  }
  const done = async (used: Used, request: DataplaneRequest): Promise<void> => {
    await readAll(await send(used, request), MAX_JSON_BYTES)
  }

  const dataplaneOf = (used: Used): SessionDataplane => {
    const accessAgain = () => access(used)
    return {
      request: (request) => send(used, request),
      json: (request, schema) => json(used, request, schema),
      done: (request) => done(used, request),
      openProcess: (start, handlers, { signal } = {}) =>
        openProcessSocket({ access: accessAgain, start, handlers, signal, monotonic, agentTls }),
      watch: (asked, handlers) => openWatchSocket({ access: accessAgain, query: query(asked), handlers, monotonic, agentTls }),
      exec: (request, options) => json(used, { method: 'POST', path: '/exec', json: request, ...options }, ExecResult),
      processes: {
        start: (request, options) => json(used, { method: 'POST', path: '/processes', json: request, ...options }, ManagedProcess),
        list: async (options) => (await json(used, { method: 'GET', path: '/processes', ...options }, ListProcessesResponse)).processes,
        get: (processId, options) => json(used, { method: 'GET', path: processPath(processId), ...options }, ManagedProcess),
        stop: (processId, options) => done(used, { method: 'DELETE', path: processPath(processId), ...options }),
        attach: (processId, handlers, { takeover = false, signal } = {}) =>
          openLineSocket({
            access: accessAgain,
            path: `${processPath(processId)}/ws`,
            handlers,
            takeover,
            signal,
            monotonic,
            agentTls,
          }),
      },
      files: {
        upload: (path, content, { mode, overwrite, signal } = {}) =>
          json(used, { method: 'POST', path: `/files/upload${query({ path, mode, overwrite })}`, body: content, signal }, UploadResponse),
        async download(path, { limit = MAX_DOWNLOAD_BYTES, signal } = {}) {
          return readAll(await send(used, { method: 'GET', path: `/files/download${query({ path })}`, signal }), limit)
        },
        list: (asked = {}, options) => json(used, { method: 'GET', path: `/files${query(asked)}`, ...options }, ListFilesResponse),
        mkdir: (path, options) => done(used, { method: 'POST', path: '/files/mkdir', json: { path, parents: true }, ...options }),
        remove: (path, { recursive, signal } = {}) => done(used, { method: 'DELETE', path: `/files${query({ path, recursive })}`, signal }),
      },
    }
  }

  return {
    session: (sessionId, actor) => dataplaneOf({ sessionId, actor }),
    close: () => upstream.close(),
  }
}

/** Whose session is used, and for whom; undefined is the broker itself. */
type Used = { sessionId: string; actor: DataplaneActor | undefined }

/** A token of before the last narrowing is another one: its agent would believe it less. */
const keyOf = ({ id, sandboxId, incarnation }: PlacedSession, { actor, notBefore, capabilities }: Held): string =>
  JSON.stringify([id, sandboxId, incarnation, actor, notBefore, ...capabilities])

const NEVER = { aborted: false }

const processPath = (id: string): string => `/processes/${encodeURIComponent(id)}`

const query = (fields: Record<string, string | number | boolean | undefined>): string => {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(fields)) if (value !== undefined) search.set(name, String(value))
  return search.size === 0 ? '' : `?${search}`
}

async function readAll(response: IncomingMessage, limit: number): Promise<Buffer> {
  const tooLong = (): Error => new BoxofficeError('PAYLOAD_TOO_LARGE', `the answer is longer than ${limit} bytes`)
  try {
    return await readAtMost(response, { limit, tooLong })
  } catch (thrown) {
    throw thrown instanceof BoxofficeError ? thrown : broken(thrown)
  }
}

const broken = (cause: unknown): BoxofficeError =>
  new BoxofficeError('BACKEND_UNAVAILABLE', 'the connection to the agent broke before it had answered; try again', { retryAfter: 1, cause })
