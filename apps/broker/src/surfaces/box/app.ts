import { markAuthenticated } from '@boxoffice/node-http'
import { BoxofficeError } from '@boxoffice/protocol'
import type { Context, Hono } from 'hono'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import type { Log } from '../../host/log.ts'
import type { AddressOf } from '../../http/address.ts'
import { holderOf } from '../../http/auth.ts'
import { readJson } from '../../http/body.ts'
import type { Env } from '../../http/env.ts'
import type { Metrics } from '../../http/metrics.ts'
import { requestIdOf } from '../../http/request-id.ts'
import { surfaceApp } from '../../http/surface-app.ts'
import type { BoxCaller } from './box-sessions.ts'
import type { Callers } from './callers.ts'
import { toBoxRefusal } from './errors.ts'
import type { BoxService } from './service.ts'

export type BoxAppOptions = { box: BoxService; callers: Callers; addressOf: AddressOf; metrics: Metrics; log: Log }

const BODY_BYTES = 2 * 1024 * 1024

/** REST of the Box surface [2-41], below whatever it is mounted at. It translates, and decides nothing. */
export function createBoxApp(options: BoxAppOptions): Hono<Env> {
  const { box } = options
  const { controlled, app } = surface(options)
  const ok = (c: Context<Env>, json: unknown, status: ContentfulStatusCode = 200) => c.json(json as object, status)
  const param = (c: Context<Env>, name: string) => c.req.param(name) ?? ''
  const pid = (c: Context<Env>) => c.req.param('pid') ?? 'default'
  const withId = (c: Context<Env>, body: unknown) => ({ ...(body as object), session_id: param(c, 'id') })

  app.get('/v1/health', async (c) => ok(c, await box.health()))
  app.get('/v1/status', (c) => controlled(c, async (caller) => ok(c, await box.status(caller))))
  app.get('/v1/sessions', (c) => controlled(c, async (caller) => ok(c, { sessions: await box.listSessions(caller) })))
  app.post('/v1/sessions/:id/exec', (c) => controlled(c, async (caller, body) => ok(c, await box.exec(caller, withId(c, body)))))
  app.post('/v1/sessions/:id', (c) => controlled(c, async (caller, body) => ok(c, await box.createSession(caller, withId(c, body)), 201)))
  app.get('/v1/sessions/:id', (c) => controlled(c, async (caller) => ok(c, await box.getSession(caller, param(c, 'id')))))
  app.delete('/v1/sessions/:id', (c) => controlled(c, async (caller) => ok(c, await box.deleteSession(caller, param(c, 'id')))))
  for (const path of ['/v1/sessions/:id/managed-process', '/v1/sessions/:id/managed-process/:pid']) {
    app.post(path, (c) =>
      controlled(c, async (caller, body) => {
        const named = c.req.param('pid') === undefined ? {} : { process_id: pid(c) }
        return ok(c, await box.startProcess(caller, param(c, 'id'), { ...(body as object), ...named }), 201)
      }),
    )
    app.get(path, (c) => controlled(c, async (caller) => ok(c, await box.getProcess(caller, param(c, 'id'), pid(c)))))
    app.delete(path, (c) => controlled(c, async (caller) => ok(c, await box.stopProcess(caller, param(c, 'id'), pid(c)))))
  }
  return closed(app)
}

/** What the product shows of it, at the paths that its front ends know [2-47, 2-48]. */
export function createBoxConsole(options: BoxAppOptions): Hono<Env> {
  const { box, callers, addressOf } = options
  const { app, refuse } = surface(options)
  const as = (who: 'reader' | 'operator', answer: (caller: BoxCaller) => Promise<object> | object) => async (c: Context<Env>) => {
    try {
      return c.json(await answer(await callers[who](headersOf(c), addressOf(c))))
    } catch (thrown) {
      return refuse(c, thrown)
    }
  }
  app.get(
    '/status',
    as('reader', (caller) => box.status(caller)),
  )
  app.get(
    '/sessions',
    as('operator', async (caller) => ({ sessions: await box.listSessions(caller) })),
  )
  app.get(
    '/errors',
    as('operator', async (caller) => ({ errors: await box.errors(caller) })),
  )
  return closed(app)
}

/** The headers of a request, with the id that its response and the audit log have. */
const headersOf =
  (c: Context<Env>) =>
  (name: string): string | undefined =>
    name === 'x-request-id' ? requestIdOf(c) : c.req.header(name)

/** Caller and body, the same for each route. */
function surface({ box, callers, addressOf, metrics, log }: BoxAppOptions) {
  const { app, refuse } = surfaceApp({
    metrics,
    log,
    route: 'compat/box',
    render(error) {
      const { status, code, message } = toBoxRefusal(error)
      return { status, body: { error: { code, message } } }
    },
  })
  const controlled = async (c: Context<Env>, answer: (caller: BoxCaller, body: unknown) => Promise<Response>): Promise<Response> => {
    const caller = await callers.controller(headersOf(c), addressOf(c))
    const socket = c.env?.incoming?.socket
    if (socket !== undefined) markAuthenticated(socket, holderOf(caller.principal))
    let body: unknown
    return box
      .guard(
        caller,
        () => body,
        async () => {
          body = c.req.method === 'POST' ? await readObject(c) : undefined
          return answer(caller, body)
        },
      )
      .catch((thrown: unknown) => refuse(c, thrown))
  }
  return { app, controlled, refuse }
}

/** What is left over is answered in the words of the surface as well. */
const closed = (app: Hono<Env>): Hono<Env> =>
  app.all('*', (c) => {
    throw new BoxofficeError('NOT_FOUND', `the Box surface has no route ${c.req.method} ${c.req.path.slice(0, 200)}`)
  })

async function readObject(c: Context): Promise<object> {
  const body = await readJson(c.req, BODY_BYTES)
  if (typeof body === 'object' && body !== null && !Array.isArray(body)) return body
  throw new BoxofficeError('INVALID_REQUEST', 'body: must be a JSON object')
}
