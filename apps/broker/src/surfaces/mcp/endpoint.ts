import { markAuthenticated, tokenOf } from '@boxoffice/node-http'
import { BoxofficeError, type SessionTokenClaims } from '@boxoffice/protocol'
import type { ProgressCallback } from '@modelcontextprotocol/client'
import { createMcpHandler, type JSONRPCRequest, Server, type ServerCapabilities, type ServerContext } from '@modelcontextprotocol/server'
import type { Hono } from 'hono'
import { z } from 'zod'
import type { ZodOpenApiOperationObject } from 'zod-openapi'
import { requireThere } from '../../domain/refusals.ts'
import type { Env } from '../../http/env.ts'
import { envelopeOf, type RefusalSinks } from '../../http/errors.ts'
import { surfaceApp } from '../../http/surface-app.ts'
import { holderOf } from '../../relay/session-authorizer.ts'
import type { Store } from '../../store/store.ts'
import type { Credentials } from '../../tokens/credentials.ts'
import type { Connected, McpServerRuntime } from './server-runtime.ts'
import type { Located, Servers } from './servers.ts'

export type EndpointOptions = RefusalSinks & {
  locate: Servers['locate']
  credentials: Pick<Credentials, 'check'>
  store: Pick<Store, 'sessions' | 'grants'>
}

/** A whole message of a managed process [2-68]. */
const MAX_BODY_BYTES = 16 * 1024 * 1024
/** A tool may work for as long as an exec may run; who does not wait for it cancels. */
const REQUEST_TIMEOUT_MS = 3600 * 1000
const METHODS = {
  tools: ['tools/list', 'tools/call'],
  resources: ['resources/list', 'resources/templates/list', 'resources/read'],
  prompts: ['prompts/list', 'prompts/get'],
  completions: ['completion/complete'],
} as const satisfies Partial<Record<keyof ServerCapabilities, readonly string[]>>

const AnyParams = z.record(z.string(), z.unknown())
const AnyResult = z.looseObject({})

/**
 * One streamable HTTP endpoint for each server: `/{name}/mcp`, behind a token of the server's session [2-95]. It keeps nothing
 * between two requests; what they ask is asked of the one connection that the broker has to the server.
 */
export function createMcpEndpoint({ locate, credentials, store, metrics, log }: EndpointOptions): Hono<Env> {
  const admit = async (request: Request, socket: object | undefined): Promise<Located> => {
    const name = nameIn(new URL(request.url).pathname)
    if (name === undefined) throw new BoxofficeError('NOT_FOUND', 'there is no such route; GET /openapi.json lists them')
    const authorization = request.headers.get('authorization') ?? undefined
    const apiKey = request.headers.get('x-api-key') ?? undefined
    const token = tokenOf({ ...(authorization && { authorization }), ...(apiKey && { 'x-api-key': apiKey }) })
    if (token === undefined) throw new BoxofficeError('UNAUTHENTICATED', 'a session token is required: Authorization: Bearer <token>')
    const { claims } = await credentials.check(token)
    if (socket !== undefined) markAuthenticated(socket, holderOf({ claims }))
    const session = requireThere(await store.sessions.byId(claims.sid))
    if (claims.gen !== session.incarnation || claims.aud !== session.sandboxId)
      throw new BoxofficeError('UNAUTHENTICATED', 'the session token is for an earlier sandbox of its session; refresh it')
    const located = await locate(name)
    // Whether there is such a server is nothing for who has no token of its session.
    if (located === undefined || located.sessionId !== session.id)
      throw new BoxofficeError('FORBIDDEN', 'the session token is not of the session that this MCP server runs in')
    if (!(await mayExec(store, claims)))
      throw new BoxofficeError('CAPABILITY_DENIED', 'calling an MCP server takes the capability "exec"', { details: { required: 'exec' } })
    return located
  }
  const { app } = surfaceApp({ metrics, log, route: 'mcp', render: envelopeOf })
  return app.all('*', async (c) => {
    const { runtime, forward } = await admit(c.req.raw, c.env?.incoming?.socket)
    if (runtime !== undefined) return answerAt(runtime, c.req.raw)
    if (forward !== undefined) return forward(c.req.raw)
    throw new BoxofficeError('BACKEND_UNAVAILABLE', 'no broker runs the MCP server at the moment; one takes it over', { retryAfter: 2 })
  })
}

/** Answers a request whose sender may use the server. */
export async function answerAt(runtime: McpServerRuntime, request: Request): Promise<Response> {
  const { connected } = runtime
  if (connected !== undefined) {
    const handler = createMcpHandler(() => serverOf(runtime, connected), { maxRequestBodySize: MAX_BODY_BYTES })
    return handler.fetch(request)
  }
  const { status, error_phase } = runtime.info()
  throw new BoxofficeError(
    'BACKEND_UNAVAILABLE',
    `the MCP server is ${status}${error_phase === null ? '' : `, after a failure in ${error_phase}`}`,
    { retryAfter: 2 },
  )
}

const JsonRpc = z.looseObject({ jsonrpc: z.literal('2.0') })

/** The endpoint in the document of the broker, below `base`. */
export const describedEndpoint = (base: string): Record<string, Record<string, ZodOpenApiOperationObject>> => ({
  [`${base}/{name}/mcp`]: {
    post: {
      summary: 'An MCP server by streamable HTTP; the credential is a token of its session with the capability exec',
      requestParams: { path: z.object({ name: z.string() }) },
      requestBody: { required: true, content: { 'application/json': { schema: z.union([JsonRpc, z.array(JsonRpc)]) } } },
      responses: {
        200: {
          description: 'What the server answers',
          content: { 'application/json': { schema: JsonRpc }, 'text/event-stream': { schema: { type: 'string' } } },
        },
        202: { description: 'A notification, or an answer, was taken' },
      },
    },
  },
})

/** Undefined for what is no endpoint, or has a name that cannot be decoded. */
function nameIn(pathname: string): string | undefined {
  const encoded = /^\/([^/]+)\/mcp$/.exec(pathname)?.[1]
  try {
    return encoded === undefined ? undefined : decodeURIComponent(encoded)
  } catch {
    return undefined
  }
}

/** A token may have been narrowed since it was made [C-57]. */
async function mayExec(store: EndpointOptions['store'], { sid, sub, caps, iat }: SessionTokenClaims): Promise<boolean> {
  if (!caps.includes('exec')) return false
  const grant = await store.grants.find(sid, sub)
  if (grant === undefined || grant.narrowedAt === null || grant.narrowedTo === null || iat > grant.narrowedAt) return true
  return grant.narrowedTo.includes('exec')
}

/** What answers one request: the server as it introduced itself, with each of its methods asked of it. */
function serverOf(runtime: McpServerRuntime, connected: Connected): Server {
  const { client, serverInfo, capabilities, instructions } = connected
  const offered = (Object.keys(METHODS) as (keyof typeof METHODS)[]).filter((name) => capabilities[name] !== undefined)
  const server = new Server(serverInfo, {
    // Without what needs a connection that stays: changes, subscriptions, logging.
    capabilities: Object.fromEntries(offered.map((name) => [name, {}])),
    ...(instructions === undefined ? {} : { instructions }),
  })
  const forward = async (method: string, { _meta, ...params }: Record<string, unknown>, { mcpReq }: ServerContext) => {
    const progressToken = (_meta as { progressToken?: string | number } | undefined)?.progressToken
    const onprogress: ProgressCallback = (progress) => {
      void mcpReq.notify({ method: 'notifications/progress', params: { ...progress, progressToken } }).catch(() => {})
    }
    return client.request({ method, params }, AnyResult, {
      signal: mcpReq.signal,
      timeout: REQUEST_TIMEOUT_MS,
      ...(progressToken !== undefined && { onprogress }),
    })
  }
  const call = async (method: string, params: Record<string, unknown>, context: ServerContext) => {
    try {
      const result = await forward(method, params, context)
      if (method === 'tools/call') runtime.toolCalled()
      return result
    } catch (thrown) {
      if (method === 'tools/call' && !context.mcpReq.signal.aborted) runtime.toolCalled(thrown)
      throw thrown
    }
  }
  server.fallbackRequestHandler = ({ method, params }: JSONRPCRequest, context) => call(method, AnyParams.parse(params ?? {}), context)
  return server
}
