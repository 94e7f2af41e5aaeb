import { BoxofficeError } from '@boxoffice/protocol'
import type { Context, Hono } from 'hono'
import { readJson } from '../../http/body.ts'
import type { Env } from '../../http/env.ts'
import type { RefusalSinks } from '../../http/errors.ts'
import { surfaceApp } from '../../http/surface-app.ts'
import type { CallerOf } from '../facade/callers.ts'
import type { Boxes } from './boxes.ts'
import { renderOfBoxes } from './errors.ts'

export type BoxesAppOptions = RefusalSinks & { boxes: Boxes; callerOf: CallerOf }

const BODY_BYTES = 1024 * 1024

/** The control routes of LangSmith's clients, below `…/v2/sandboxes` (contract 7.2). */
export const createBoxesApp = ({ boxes, callerOf, metrics, log }: BoxesAppOptions): Hono<Env> => {
  const { app, refuse } = surfaceApp({ metrics, log, route: 'compat/langsmith', render: renderOfBoxes })
  const body = (c: Context<Env>): Promise<unknown> => readJson(c.req, BODY_BYTES)
  const unsupported =
    (feature: string) =>
    async (c: Context<Env>): Promise<Response> => {
      await callerOf(c)
      throw new BoxofficeError('UNSUPPORTED', `${feature} are not supported by Boxoffice`)
    }
  app.post('/boxes', async (c) => c.json(await boxes.create(await callerOf(c), await body(c)), 201))
  app.get('/boxes', async (c) => {
    const items = await boxes.list(await callerOf(c))
    // The older clients read `sandboxes`, the newer ones `items`.
    return c.json({ sandboxes: items, items, next_cursor: null })
  })
  app.get('/boxes/:name', async (c) => c.json(await boxes.get(await callerOf(c), c.req.param('name'))))
  app.patch('/boxes/:name', async (c) => c.json(await boxes.update(await callerOf(c), c.req.param('name'), await body(c))))
  app.delete('/boxes/:name', async (c) => {
    await boxes.remove(await callerOf(c), c.req.param('name'))
    return c.body(null, 204)
  })
  app.get('/boxes/:name/status', async (c) => c.json(await boxes.status(await callerOf(c), c.req.param('name'))))
  app.post('/boxes/:name/start', async (c) => c.json(await boxes.start(await callerOf(c), c.req.param('name'))))
  app.post('/boxes/:name/stop', async (c) => c.json(await boxes.stop(await callerOf(c), c.req.param('name'))))
  for (const [path, feature] of UNSUPPORTED) app.all(path, unsupported(feature))
  app.notFound((c) => refuse(c, new BoxofficeError('NOT_FOUND', 'no such route')))
  return app
}

const UNSUPPORTED = [
  ['/boxes/:name/snapshot', 'snapshots'],
  ['/snapshots/*', 'snapshots'],
  ['/boxes/:name/service-url', 'service URLs'],
  ['/boxes/:name/service-urls', 'service URLs'],
  ['/boxes/:name/download-url', 'download URLs'],
  ['/registries/*', 'registries'],
  ['/volumes/*', 'volumes'],
  ['/usage/*', 'usage costs'],
] as const
