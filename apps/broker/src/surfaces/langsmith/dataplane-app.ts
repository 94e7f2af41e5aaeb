import { BoxofficeError } from '@boxoffice/protocol'
import type { Context, Hono } from 'hono'
import type { DataplaneClient, SessionDataplane } from '../../dataplane/client.ts'
import { readJson } from '../../http/body.ts'
import type { Env } from '../../http/env.ts'
import type { RefusalSinks } from '../../http/errors.ts'
import { surfaceApp } from '../../http/surface-app.ts'
import type { CallerOf } from '../facade/callers.ts'
import type { Attached } from '../facade/facade-sessions.ts'
import type { SandboxEnvironments } from '../facade/sandbox-environments.ts'
import type { Boxes } from './boxes.ts'
import { readExecute } from './commands/command-request.ts'
import { renderOfDataplane } from './errors.ts'
import { download, upload } from './files.ts'
import { glob, grep } from './search.ts'

export type DataplaneAppOptions = RefusalSinks & {
  boxes: Boxes
  callerOf: CallerOf
  dataplane: DataplaneClient
  environments: SandboxEnvironments
}

const BODY_BYTES = 20 * 1024 * 1024

/** The dataplane of boxes, below `dp/{name}`; each request wakes its box. Its socket is in `command-sockets.ts`. */
export const createDataplaneApp = ({ boxes, callerOf, dataplane, environments, metrics, log }: DataplaneAppOptions): Hono<Env> => {
  const { app, refuse } = surfaceApp({ metrics, log, route: 'compat/langsmith/dp', render: renderOfDataplane })
  const body = (c: Context<Env>): Promise<unknown> => readJson(c.req, BODY_BYTES)
  const attach = async (c: Context<Env>): Promise<Attached & { dataplane: SessionDataplane; signal: AbortSignal }> => {
    const attached = await boxes.attach(await callerOf(c), c.req.param('name') ?? '')
    return { ...attached, dataplane: dataplane.session(attached.session.id, attached.actor), signal: c.req.raw.signal }
  }
  app.post('/:name/execute', async (c) => {
    const { session, dataplane: sandbox, signal } = await attach(c)
    const request = await readExecute(await body(c), (own) => environments.withOwn(session.id, own))
    const { stdout, stderr, exit_code } = await sandbox.exec(request, { signal })
    return c.json({ stdout, stderr, exit_code })
  })
  app.post('/:name/upload', async (c) => upload(c, (await attach(c)).dataplane))
  app.get('/:name/download', async (c) => download(c, (await attach(c)).dataplane))
  app.post('/:name/glob', async (c) => {
    const attached = await attach(c)
    return c.json(await glob(await body(c), attached))
  })
  app.post('/:name/grep', async (c) => {
    const attached = await attach(c)
    return c.json(await grep(await body(c), attached))
  })
  for (const [path, feature] of UNSUPPORTED)
    app.all(path, async (c) => {
      await callerOf(c)
      throw new BoxofficeError('UNSUPPORTED', `${feature} are not supported by Boxoffice`)
    })
  app.notFound((c) => refuse(c, new BoxofficeError('NOT_FOUND', 'no such route')))
  return app
}

const UNSUPPORTED = [
  ['/:name/execute/stream/*', 'commands over server-sent events'],
  ['/:name/tunnel', 'tunnels'],
] as const
