import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import type { ReadableStream as NodeReadableStream } from 'node:stream/web'
import type { Context } from 'hono'
import type { Env } from '../../http/env.ts'

const TOLD = ['content-type', 'content-length', 'content-range', 'accept-ranges', 'etag', 'last-modified']

/** The body of a request, for a request on a dataplane: read as fast as the agent takes it. */
export const requestBody = (c: Context<Env>): Buffer | Readable => {
  const { body } = c.req.raw
  return body === null ? Buffer.alloc(0) : Readable.fromWeb(body as NodeReadableStream)
}

/** The agent's response to a download, whose body is read as fast as the client takes it. */
export function streamedResponse(response: IncomingMessage, isHead = false): Response {
  const headers = TOLD.flatMap((name): [string, string][] => {
    const value = response.headers[name]
    return typeof value === 'string' ? [[name, value]] : []
  })
  const status = response.statusCode ?? 502
  const isEmpty = status === 204 || status === 304 || isHead
  if (isEmpty) response.resume()
  return new Response(isEmpty ? null : (Readable.toWeb(response) as ReadableStream), { status, headers })
}
