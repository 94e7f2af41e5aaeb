import { type BoxofficeError, fromUnknown } from '@boxoffice/protocol'
import { type Context, Hono } from 'hono'
import type { Env } from './env.ts'
import { type RefusalSinks, type Rendered, reportRefusal } from './errors.ts'
import { requestIdOf, requestIds } from './request-id.ts'

export type SurfaceAppOptions = RefusalSinks & {
  /** What the requests are counted under. */
  route: string
  /** A refusal in the words of the surface. */
  render(error: BoxofficeError, requestId: string): Rendered
}

/** `refuse` makes the response of whatever was thrown; what handlers throw comes there by itself. */
export type SurfaceApp = { app: Hono<Env>; refuse(c: Context<Env>, thrown: unknown): Response }

/** An app of a surface that tells of refusals in its own words. Request id, metrics, log and the headers of refusals are the same for all. */
export function surfaceApp({ metrics, log, route, render }: SurfaceAppOptions): SurfaceApp {
  const refuse: SurfaceApp['refuse'] = (c, thrown) => {
    const error = fromUnknown(thrown)
    const requestId = requestIdOf(c)
    return reportRefusal({ error, requestId, rendered: render(error, requestId) }, { metrics, log })
  }
  const app = new Hono<Env>()
  app.use(requestIds)
  app.use(async (c, next) => {
    const started = performance.now()
    await next()
    metrics.observe(c.req.method, route, c.res.status, (performance.now() - started) / 1000)
  })
  app.onError((thrown, c) => refuse(c, thrown))
  return { app, refuse }
}
