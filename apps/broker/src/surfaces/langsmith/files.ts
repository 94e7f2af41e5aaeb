import { BoxofficeError } from '@boxoffice/protocol'
import type { Context } from 'hono'
import type { SessionDataplane } from '../../dataplane/client.ts'
import type { Env } from '../../http/env.ts'
import { requestBody, streamedResponse } from '../facade/bodies.ts'
import { filePath } from './paths.ts'

const ASKED = ['range', 'if-range', 'if-none-match', 'if-modified-since']
const BAD_REQUEST = 400
const RANGE_NOT_SATISFIABLE = 416

/** `POST …/upload?path=`: the form of the client goes to the agent as it is. */
export async function upload(c: Context<Env>, dataplane: SessionDataplane): Promise<Response> {
  const sent = ['content-type', 'content-length'].flatMap((name) => {
    const value = c.req.header(name)
    return value === undefined ? [] : [[name, value]]
  })
  const response = await dataplane.request({
    method: 'POST',
    path: `/upload?${pathQuery(c)}`,
    headers: Object.fromEntries(sent),
    body: requestBody(c),
    signal: c.req.raw.signal,
  })
  return streamedResponse(response)
}

/** `GET` and `HEAD …/download?path=` with ranges and validators. */
export async function download(c: Context<Env>, dataplane: SessionDataplane): Promise<Response> {
  const isHead = c.req.method === 'HEAD'
  const asked = ASKED.flatMap((name) => {
    const value = c.req.header(name)
    return value === undefined ? [] : [[name, value]]
  })
  const response = await dataplane.request({
    method: isHead ? 'HEAD' : 'GET',
    path: `/download?${pathQuery(c)}`,
    headers: Object.fromEntries(asked),
    signal: c.req.raw.signal,
    // A refusal without a body says no more than its status.
    accepts: (status) => status === RANGE_NOT_SATISFIABLE || (isHead && status >= BAD_REQUEST),
  })
  if (response.statusCode !== RANGE_NOT_SATISFIABLE || isHead) return streamedResponse(response, isHead)
  response.resume()
  const range = response.headers['content-range']
  const body = { detail: { error: 'RangeNotSatisfiable', message: 'the range begins behind the end of the file' } }
  return c.json(body, RANGE_NOT_SATISFIABLE, range === undefined ? {} : { 'content-range': range })
}

function pathQuery(c: Context<Env>): URLSearchParams {
  const path = c.req.query('path')
  if (path === undefined || path === '')
    throw new BoxofficeError('INVALID_REQUEST', 'path: is missing in the query', { details: { field: 'path' } })
  return new URLSearchParams({ path: filePath(path) })
}
