import { readFileSync } from 'node:fs'
import { createServer as createHttpServer, type Server, STATUS_CODES } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { BoxofficeError, fromUnknown, newRequestId } from '@boxoffice/protocol'
import { getRequestListener, RequestError } from '@hono/node-server'
import type { Hono } from 'hono'
import { StartError } from '../start-error.ts'
import type { Env } from './app.ts'
import { drainable } from './drain.ts'
import { refusalResponse } from './errors.ts'

export type ListenOptions = { host: string; port: number; tls?: { cert: string; key: string } | undefined }

/** A listening server: the port that it got, and how to end it. */
export async function listen(app: Hono<Env>, { host, port, tls }: ListenOptions): Promise<{ port: number; close(): Promise<void> }> {
  const server = createServer(app, tls)
  const close = drainable(server, tls === undefined ? 'connection' : 'secureConnection')
  server.requestTimeout = 30_000
  server.on('clientError', refuseUnparsed)
  await new Promise<void>((resolve, reject) => {
    server.once('error', (thrown: NodeJS.ErrnoException) => reject(cannotListen(thrown, host, port)))
    server.listen(port, host, resolve)
  })
  return { port: (server.address() as AddressInfo).port, close }
}

function createServer(app: Hono<Env>, tls: ListenOptions['tls']): Server {
  const fetch = app.fetch as (request: Request) => Response | Promise<Response>
  const listener = getRequestListener(fetch, { errorHandler: refuseUnroutable })
  // Node would answer a request without Host by itself, without the envelope.
  const options = { requireHostHeader: false }
  if (tls === undefined) return createHttpServer(options, listener)
  const pems = { cert: readPem(tls.cert, 'cert'), key: readPem(tls.key, 'key') }
  try {
    return createHttpsServer({ ...options, ...pems }, listener)
  } catch (thrown) {
    throw new StartError('settings --tls-cert and --tls-key: the files are not a certificate and its key in PEM', { cause: thrown })
  }
}

/** HTTP whose host or path make no URL. */
function refuseUnroutable(thrown: unknown): Response {
  const error =
    thrown instanceof RequestError
      ? new BoxofficeError('INVALID_REQUEST', `the request has no valid URL: ${thrown.message}`, { cause: thrown })
      : fromUnknown(thrown)
  return refusalResponse(error, newRequestId(), 'full')
}

/** What is no HTTP, has too large headers or never ends is refused like everything else, with the envelope. */
function refuseUnparsed(thrown: NodeJS.ErrnoException, socket: Duplex): void {
  if (thrown.code === 'ECONNRESET' || !socket.writable) return void socket.destroy()
  const late = thrown.code === 'ERR_HTTP_REQUEST_TIMEOUT'
  const message = late ? 'the request did not arrive in time' : 'the request is not valid HTTP, or its headers are too large'
  const error = new BoxofficeError(late ? 'TIMEOUT' : 'INVALID_REQUEST', message)
  const requestId = newRequestId()
  const body = JSON.stringify(error.envelope(requestId))
  const head = [`HTTP/1.1 ${error.status} ${STATUS_CODES[error.status]}`, 'Content-Type: application/json', `X-Request-Id: ${requestId}`]
  socket.end([...head, `Content-Length: ${Buffer.byteLength(body)}`, 'Connection: close', '', body].join('\r\n'))
}

const readPem = (path: string, name: string): string => {
  try {
    return readFileSync(path, 'utf8')
  } catch (thrown) {
    throw new StartError(`setting tls.${name} (--tls-${name}): ${(thrown as Error).message}`)
  }
}

function cannotListen(thrown: NodeJS.ErrnoException, host: string, port: number): StartError {
  if (thrown.code === 'EADDRINUSE')
    return new StartError(`port ${port} on ${host} is in use; choose another with --port, or --port 0 for a free one`)
  if (thrown.code === 'EACCES')
    return new StartError(`port ${port} on ${host} may not be opened by this user; choose one above 1023 with --port`)
  return new StartError(`cannot listen on ${host}:${port}: ${thrown.message}; check --host and --port`, { cause: thrown })
}
