import { BoxofficeError } from '@boxoffice/protocol'
import type { Context, Hono } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import type { Log } from '../../host/log.ts'
import type { Env } from '../../http/env.ts'
import type { Rendered } from '../../http/errors.ts'
import type { Metrics } from '../../http/metrics.ts'
import { surfaceApp } from '../../http/surface-app.ts'
import { docsHeaders, docsPage } from '../documentation/page.ts'
import type { CallerOf } from '../facade/callers.ts'
import { openapi } from './openapi.ts'
import { notJson, readStep, type StepDetail } from './step.ts'
import type { Steps } from './steps.ts'

export type StepsAppOptions = {
  steps: Steps
  /** Who calls; throws the refusal of a caller that is not let in. */
  callerOf: CallerOf
  /** The path that it is mounted at; empty: the root. */
  base: string
  metrics: Metrics
  log: Log
}

/** More than the longest step, as JSON. */
const BODY_BYTES = 2 * 1024 * 1024

/** The frozen surface of seed 003: it translates, and owns no sandbox logic. Its refusals are `{"detail": …}` [C-71]. */
export const createStepsApp = ({ steps, callerOf, base, metrics, log }: StepsAppOptions): Hono<Env> =>
  surfaceApp({ metrics, log, route: 'compat/sbs', render })
    .app.notFound((c) => c.json({ detail: 'Not Found' }, 404))
    .post('/sessions', async (c) => c.json({ session_id: await steps.create(await callerOf(c)) }))
    .post('/sessions/:id/step', bodyLimit({ maxSize: BODY_BYTES, onError: tooLarge }), async (c) => {
      const caller = await callerOf(c)
      const id = c.req.param('id')
      const read = readStep(await readBody(c), id)
      if ('detail' in read) return c.json(read, 422)
      return c.json(await steps.run(id, read.step, caller))
    })
    .delete('/sessions/:id', async (c) => {
      await steps.close(c.req.param('id'), await callerOf(c))
      return c.body(null, 204)
    })
    .get('/openapi.json', (c) => c.json(openapi(base || '/')))
    .get('/docs', (c) => c.html(docsPage({ title: 'session-based-sandbox', intro: INTRO, api: `${base}/openapi.json` }), 200, docsHeaders))
    .on(['GET', 'PUT', 'PATCH', 'DELETE'], '/sessions', methodNotAllowed)
    .on(['GET', 'PUT', 'PATCH', 'DELETE'], '/sessions/:id/step', methodNotAllowed)
    .on(['GET', 'POST', 'PUT', 'PATCH'], '/sessions/:id', methodNotAllowed)

const INTRO = 'One session is one sandbox. Run bash or Python steps in it; files last from step to step.'

/** The cause of a refusal that is told with all that is wrong. */
class Unreadable extends Error {
  readonly detail: StepDetail
  constructor(detail: StepDetail) {
    super(detail.msg)
    this.detail = detail
  }
}

/** JSON that says so: a web page elsewhere can send any text to a local port, but not under this type without asking first. */
const readBody = async (c: Context): Promise<unknown> => {
  const text = await c.req.text()
  const isJson = /^application\/([\w.-]+\+)?json *(;|$)/i.test(c.req.header('content-type') ?? '')
  if (!isJson) return text
  try {
    return JSON.parse(text)
  } catch (thrown) {
    const cause = new Unreadable(notJson((thrown as Error).message))
    throw new BoxofficeError('INVALID_REQUEST', cause.message, { cause })
  }
}

const render = (error: BoxofficeError): Rendered => {
  if (error.cause instanceof Unreadable) return { status: 422, body: { detail: [error.cause.detail] } }
  // An ended session is as good as none here.
  if (error.code === 'BINDING_NOT_FOUND' || error.code === 'SESSION_EXPIRED') return { status: 404, body: { detail: 'Session not found' } }
  return { status: error.status, body: { detail: error.message } }
}

const tooLarge = (c: Context): Response => c.json({ detail: `The body must be at most ${BODY_BYTES} bytes` }, 413)
const methodNotAllowed = (c: Context): Response => c.json({ detail: 'Method Not Allowed' }, 405)
