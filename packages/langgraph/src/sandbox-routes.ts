import { type Actor, BoxofficeError, RelayPreference } from '@boxoffice/protocol'
import { type Context, Hono } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import { HTTPException } from 'hono/http-exception'
import { z } from 'zod'
import { askBroker, type BrokerOptions } from './broker.ts'

/**
 * Decides who asks: gives the person (or agent) on whose behalf the sandbox of a thread is used, or undefined where they may not. To
 * answer 401 instead of 403, throw Hono's `HTTPException`. `release` ends the sandbox for everybody on the thread.
 */
export type AuthorizeThread = (
  request: Request,
  what: { threadId: string; action: 'use' | 'release' },
) => Actor | undefined | Promise<Actor | undefined>

export type SandboxRoutesOptions = BrokerOptions & { authorize: AuthorizeThread }

const MOST_BYTES = 64 * 1024
const Id = z.string().min(1).max(256)
const Capabilities = z.array(z.string().min(1).max(64)).max(64)
/** Of a negotiation, what its caller decides. Profile, labels, members and mounts are the server's business. */
const Negotiation = z.object({
  thread_id: Id,
  mode: z.enum(['get', 'ensure']).default('ensure'),
  requested_capabilities: Capabilities.optional(),
  relay: RelayPreference.optional(),
})
const Renewal = z.object({ requested_capabilities: Capabilities.optional() })
const ThreadBinding = z.object({ binding: z.object({ scope: z.object({ type: z.literal('thread'), id: Id }) }) })

/**
 * A Hono app with the broker's session routes for threads, for `http.app` of `langgraph.json`: the SDK, the CLI and other clients of the
 * session-access protocol take the LangGraph server for a broker. `authorize` decides about each request; the broker is asked with the
 * server's own credential, which needs the right `act_as`.
 */
export const sandboxRoutes = ({ authorize, ...broker }: SandboxRoutesOptions): Hono => {
  const permit = async (c: Context, threadId: string, action: 'use' | 'release'): Promise<Actor> => {
    const actor = await authorize(c.req.raw, { threadId, action })
    if (actor === undefined) throw new BoxofficeError('FORBIDDEN', 'the sandbox of this thread is not yours to use')
    return actor
  }
  const ask = (c: Context, path: string, method: string, body?: unknown): Promise<Response> =>
    askBroker(broker, path, { method, body, signal: c.req.raw.signal, prefer: waitOf(c.req.header('prefer')) })
  /** The path of a session that is of a thread, once its caller is permitted. */
  const permitted = async (c: Context, action: 'use' | 'release'): Promise<{ path: string; actor: Actor }> => {
    const path = `/v1/sandbox/sessions/${encodeURIComponent(c.req.param('id') ?? '')}`
    const response = await ask(c, `${path}?token=false`, 'GET')
    const found = ThreadBinding.safeParse(response.ok ? await response.json() : undefined).data
    if (!response.ok && response.status !== 404) throw new BoxofficeError('BACKEND_UNAVAILABLE', 'the broker gives no session; try again')
    if (found === undefined) throw new BoxofficeError('BINDING_NOT_FOUND', 'no such session')
    return { path, actor: await permit(c, found.binding.scope.id, action) }
  }

  const app = new Hono()
  app.use(
    '/v1/sandbox/*',
    bodyLimit({ maxSize: MOST_BYTES, onError: () => refusal(new BoxofficeError('PAYLOAD_TOO_LARGE', 'the body is too large')) }),
  )
  app.post('/v1/sandbox/sessions', async (c) => {
    const negotiation = await read(c, Negotiation)
    const actor = await permit(c, negotiation.thread_id, 'use')
    return await ask(c, '/v1/sandbox/sessions', 'POST', { ...negotiation, actor })
  })
  // Without a token: one of this route would be the server's own, and not the caller's.
  app.get('/v1/sandbox/sessions/:id', async (c) => await ask(c, `${(await permitted(c, 'use')).path}?token=false`, 'GET'))
  app.post('/v1/sandbox/sessions/:id/refresh', async (c) => {
    const renewal = await read(c, Renewal)
    const { path, actor } = await permitted(c, 'use')
    return await ask(c, `${path}/refresh`, 'POST', { ...renewal, actor })
  })
  app.post('/v1/sandbox/sessions/:id/heartbeat', async (c) => await ask(c, `${(await permitted(c, 'use')).path}/heartbeat`, 'POST', {}))
  app.delete('/v1/sandbox/sessions/:id', async (c) => {
    const { path } = await permitted(c, 'release')
    return await ask(c, c.req.query('keep_workspace') === 'true' ? `${path}?keep_workspace=true` : path, 'DELETE')
  })
  app.onError((error) => {
    if (error instanceof HTTPException) return error.getResponse()
    if (error instanceof BoxofficeError) return refusal(error)
    // Of an error of somebody's authorize() nothing is told.
    return refusal(new BoxofficeError('INTERNAL', 'the request failed', { cause: error }))
  })
  return app
}

const waitOf = (prefer: string | undefined): string | undefined =>
  prefer !== undefined && /^wait=\d{1,3}$/.test(prefer) ? prefer : undefined

const read = async <T>(c: Context, schema: z.ZodType<T>): Promise<T> => {
  const text = await c.req.text()
  let value: unknown
  try {
    value = text === '' ? {} : JSON.parse(text)
  } catch (thrown) {
    throw new BoxofficeError('INVALID_REQUEST', 'body: must be valid JSON', { cause: thrown })
  }
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  throw new BoxofficeError('INVALID_REQUEST', `${issue?.path.join('.') || 'body'}: ${issue?.message ?? 'is not valid'}`)
}

const refusal = (error: BoxofficeError): Response =>
  Response.json(error.envelope(`req_${crypto.randomUUID()}`, 'mvp'), { status: error.status, headers: { 'cache-control': 'no-store' } })
