import { Readable } from 'node:stream'
import { readAtMost } from '@boxoffice/node-http'
import { BoxofficeError, EXEC_ID_PATTERN } from '@boxoffice/protocol'
import type { Context, Hono } from 'hono'
import type { DataplaneClient, SessionDataplane } from '../../dataplane/client.ts'
import { readJson } from '../../http/body.ts'
import type { Env } from '../../http/env.ts'
import type { RefusalSinks } from '../../http/errors.ts'
import { surfaceApp } from '../../http/surface-app.ts'
import { requestBody, streamedResponse } from '../facade/bodies.ts'
import type { CallerOf } from '../facade/callers.ts'
import { type FilePath, filePath, queryOf } from '../facade/paths.ts'
import { render } from './errors.ts'
import { followExecution, readExecution } from './execution-request.ts'
import { openExecution } from './execution-stream.ts'
import { append, copy } from './file-commands.ts'
import { list, makeDirectory, move, remove, stat, writing } from './files.ts'
import type { Sandboxes } from './sandboxes.ts'
import { readSequence } from './sequence.ts'

export type N8nAppOptions = RefusalSinks & { sandboxes: Sandboxes; callerOf: CallerOf; dataplane: DataplaneClient }

/** A command with its environment. */
const BODY_BYTES = 2 * 1024 * 1024
/** What is appended at once; a whole file may be as long as the profile says. */
const APPEND_BYTES = 10 * 1024 * 1024
const OCTETS = { 'content-type': 'application/octet-stream' }

/** The API of n8n's sandbox service, as its client uses it (contract 7.5): it translates, and owns no sandbox logic. */
export const createN8nApp = ({ sandboxes, callerOf, dataplane, metrics, log }: N8nAppOptions): Hono<Env> => {
  const { app, refuse } = surfaceApp({ metrics, log, route: 'compat/n8n', render })
  const body = (c: Context<Env>): Promise<unknown> => readJson(c.req, BODY_BYTES)
  const attach = async (c: Context<Env>): Promise<SessionDataplane> => {
    const { session, actor } = await sandboxes.attach(await callerOf(c), c.req.param('id') ?? '')
    return dataplane.session(session.id, actor)
  }

  app.post('/', async (c) => c.json(await sandboxes.create(await callerOf(c), await body(c)), 201))
  app.get('/:id', async (c) => c.json(await sandboxes.get(await callerOf(c), c.req.param('id'))))
  app.delete('/:id', async (c) => {
    await sandboxes.remove(await callerOf(c), c.req.param('id'))
    return c.body(null, 204)
  })

  app.post('/:id/executions', async (c) => {
    const sandbox = await attach(c)
    return events(await openExecution(sandbox, readExecution(await body(c)), { signal: c.req.raw.signal }))
  })
  app.get('/:id/executions/:exec', async (c) => {
    const sandbox = await attach(c)
    const { follow, after } = c.req.query()
    if (follow !== 'true') throw new BoxofficeError('UNSUPPORTED', 'an execution without follow=true is not supported by Boxoffice')
    const options = { after: after === undefined ? undefined : readSequence(after), signal: c.req.raw.signal }
    return events(await openExecution(sandbox, followExecution(execOf(c)), options))
  })
  app.delete('/:id/executions/:exec', async (c) => {
    const sandbox = await attach(c)
    await kill(sandbox, execOf(c))
    return c.body(null, 204)
  })

  app.get('/:id/files', async (c) => {
    const sandbox = await attach(c)
    return c.json(await list(sandbox, filePath(c.req.query('path') ?? ''), flag(c, 'recursive'), c.req.query('extension') ?? ''))
  })
  app.get('/:id/files/content', async (c) => {
    const sandbox = await attach(c)
    const path = `/files/download${queryOf(pathOf(c).query)}`
    return streamedResponse(await sandbox.request({ method: 'GET', path, signal: c.req.raw.signal }))
  })
  app.put('/:id/files', async (c) => {
    const sandbox = await attach(c)
    const length = c.req.header('content-length')
    const headers = { ...OCTETS, ...(length === undefined ? {} : { 'content-length': length }) }
    const write = writing(pathOf(c), c.req.query('overwrite') !== 'false')
    await sandbox.done({ ...write, headers, body: requestBody(c), signal: c.req.raw.signal })
    return c.body(null, 200)
  })
  app.post('/:id/files', async (c) => {
    const sandbox = await attach(c)
    const path = pathOf(c)
    const content = c.req.raw.body
    await append(sandbox, path, content === null ? Buffer.alloc(0) : await readAtMost(content, { limit: APPEND_BYTES, tooLong }))
    return c.body(null, 200)
  })
  app.delete('/:id/files', async (c) => {
    const sandbox = await attach(c)
    await remove(sandbox, pathOf(c), { recursive: flag(c, 'recursive'), force: flag(c, 'force') })
    return c.body(null, 204)
  })
  app.post('/:id/files/copy', async (c) => {
    const sandbox = await attach(c)
    await copy(sandbox, await body(c))
    return c.body(null, 200)
  })
  app.post('/:id/files/move', async (c) => {
    const sandbox = await attach(c)
    await move(sandbox, await body(c))
    return c.body(null, 200)
  })
  app.post('/:id/mkdir', async (c) => {
    const sandbox = await attach(c)
    await makeDirectory(sandbox, pathOf(c), flag(c, 'recursive'))
    return c.body(null, 201)
  })
  app.get('/:id/stat', async (c) => {
    const sandbox = await attach(c)
    return c.json(await stat(sandbox, pathOf(c)))
  })
  app.notFound((c) => refuse(c, new BoxofficeError('NOT_FOUND', 'no such route')))
  return app
}

/** Each line at once, also through proxies that would collect them. */
const events = (stream: Readable): Response =>
  new Response(Readable.toWeb(stream) as ReadableStream, {
    headers: { 'content-type': 'application/x-ndjson', 'cache-control': 'no-store', 'x-accel-buffering': 'no' },
  })

/** The client's way to end a command; it asks also for each that has ended. */
async function kill(sandbox: SessionDataplane, id: string): Promise<void> {
  try {
    await sandbox.done({ method: 'POST', path: `/execs/${id}/signal`, json: { signal: 'KILL' } })
  } catch (thrown) {
    if (!(thrown instanceof BoxofficeError && thrown.code === 'PROCESS_NOT_RUNNING')) throw thrown
  }
}

function execOf(c: Context<Env>): string {
  const id = c.req.param('exec') ?? ''
  if (!EXEC_ID_PATTERN.test(id)) throw new BoxofficeError('EXEC_NOT_FOUND', 'there is no such execution')
  return id
}

function pathOf(c: Context<Env>): FilePath {
  const path = c.req.query('path')
  if (path === undefined || path === '') throw new BoxofficeError('INVALID_REQUEST', 'path: is missing in the query')
  return filePath(path)
}

const flag = (c: Context<Env>, name: string): boolean => c.req.query(name) === 'true'
const tooLong = (): Error => new BoxofficeError('PAYLOAD_TOO_LARGE', `at most ${APPEND_BYTES} bytes are appended at once`)
