import type { BoxofficeError } from '@boxoffice/protocol'
import type { Hono } from 'hono'
import type { Log } from '../../../host/log.ts'
import { readJson } from '../../../http/body.ts'
import { decodeCursor, encodeCursor } from '../../../http/cursor.ts'
import type { Env } from '../../../http/env.ts'
import type { Rendered } from '../../../http/errors.ts'
import type { Metrics } from '../../../http/metrics.ts'
import { surfaceApp } from '../../../http/surface-app.ts'
import type { CallerOf } from '../../facade/callers.ts'
import { unsupported } from '../call/unsupported.ts'
import { DEFAULT_TIMEOUT, readCreate, readPause, readTimeout } from './create-request.ts'
import { readListing, selects } from './listing.ts'
import type { Sandboxes } from './sandboxes.ts'
import { toConnected, toDetail } from './views.ts'

export type ControlAppOptions = { sandboxes: Sandboxes; callerOf: CallerOf; metrics: Metrics; log: Log }

const BODY_BYTES = 1024 * 1024

/** E2B's control API (contract 7.3): it translates, and owns no sandbox logic. Its refusals are `{"code": status, "message": …}`. */
export function createControlApp({ sandboxes, callerOf, metrics, log }: ControlAppOptions): Hono<Env> {
  const { app } = surfaceApp({ metrics, log, route: 'compat/e2b', render })
  const v1AndV2 = (path: string): string[] => [path, `/v2${path}`]
  app.notFound((c) => c.json({ code: 404, message: `there is no route ${c.req.path.slice(0, 200)}` }, 404))
  for (const path of v1AndV2('/sandboxes')) {
    app.post(path, async (c) => {
      const { sandbox, token } = await sandboxes.create(await callerOf(c), readCreate(await readJson(c.req, BODY_BYTES)))
      return c.json(toConnected(sandbox, token), 201)
    })
    app.get(path, async (c) => {
      const caller = await callerOf(c)
      const listing = readListing(c.req.query())
      const cursor = listing.nextToken === undefined ? undefined : decodeCursor(listing.nextToken, ['number', 'string'])
      const after = cursor === undefined ? null : { startedAt: Number(cursor[0]), id: String(cursor[1]) }
      const { page, last } = await sandboxes.list(caller, { after, limit: listing.limit })
      if (last !== undefined) c.header('x-next-token', encodeCursor([last.startedAt, last.id]))
      return c.json(page.filter(({ sandbox }) => selects(listing, sandbox)).map(({ sandbox, session }) => toDetail(sandbox, session)))
    })
  }
  for (const path of v1AndV2('/sandboxes/:id/connect'))
    app.post(path, async (c) => {
      const caller = await callerOf(c)
      const timeout = readTimeout(await readJson(c.req, BODY_BYTES)) ?? DEFAULT_TIMEOUT
      const { sandbox, token, resumed } = await sandboxes.connect(caller, c.req.param('id') ?? '', timeout)
      return c.json(toConnected(sandbox, token), resumed ? 201 : 200)
    })
  app.get('/sandboxes/:id', async (c) => {
    const { sandbox, session } = await sandboxes.find(await callerOf(c), c.req.param('id'))
    return c.json(toDetail(sandbox, session))
  })
  app.delete('/sandboxes/:id', async (c) => {
    await sandboxes.kill(await callerOf(c), c.req.param('id'))
    return c.body(null, 204)
  })
  app.post('/sandboxes/:id/timeout', async (c) => {
    const caller = await callerOf(c)
    await sandboxes.setTimeout(caller, c.req.param('id'), readTimeout(await readJson(c.req, BODY_BYTES)) ?? DEFAULT_TIMEOUT)
    return c.body(null, 204)
  })
  app.post('/sandboxes/:id/pause', async (c) => {
    const caller = await callerOf(c)
    const paused = await sandboxes.pause(caller, c.req.param('id'), readPause(await readJson(c.req, BODY_BYTES)))
    return paused ? c.body(null, 204) : c.json({ code: 409, message: 'the sandbox is paused already' }, 409)
  })
  for (const [path, feature] of NOT_SERVED)
    app.all(path, async (c) => {
      await callerOf(c)
      throw unsupported(feature)
    })
  return app
}

const NOT_SERVED: readonly (readonly [string, string])[] = [
  ['/sandboxes/:id/metrics', 'metrics'],
  ['/sandboxes/metrics', 'metrics'],
  ['/sandboxes/:id/logs', 'logs'],
  ['/sandboxes/:id/network', 'network rules'],
  ['/sandboxes/:id/snapshots', 'snapshots'],
  ['/sandboxes/:id/fork', 'fork'],
  ['/sandboxes/:id/refreshes', 'refreshes'],
  ['/snapshots', 'snapshots'],
  ['/templates', 'templates'],
  ['/templates/*', 'templates'],
  ['/v2/templates/*', 'templates'],
  ['/v3/templates', 'templates'],
  ['/volumes', 'volumes'],
  ['/volumes/*', 'volumes'],
  ['/secrets', 'secrets'],
  ['/secrets/*', 'secrets'],
]

const render = (error: BoxofficeError): Rendered => ({ status: error.status, body: { code: error.status, message: error.message } })
