import { readFileSync } from 'node:fs'
import { createServer as createHttpServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { localUrl } from '@boxoffice/kit/listen-address'
import {
  closeWhereUnread,
  drainable,
  hasUnread,
  limitConnections,
  refuseInEnvelope,
  refuseLate,
  requireHost,
  SERVER_OPTIONS,
} from '@boxoffice/node-http'
import { BoxofficeError, fromUnknown, newRequestId } from '@boxoffice/protocol'
import { getRequestListener, RequestError } from '@hono/node-server'
import type { Hono } from 'hono'
import { StartError } from '../host/start-error.ts'
import { type AgentTls, trustOwnAgent } from '../relay/http1/agent-tls.ts'
import type { Env } from './env.ts'
import { refusalResponse } from './errors.ts'

export type ListenOptions = {
  host: string
  port: number
  tls?: { cert: string; key: string } | undefined
  trustedProxies?: readonly string[]
  maxConnections: number
}

/** What passes bytes on, and opens sockets. */
export type Bytes = {
  /** Whether a request is one to pass on. */
  owns(request: IncomingMessage): boolean
  handle(request: IncomingMessage, response: ServerResponse): void
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void
}

/** How long a request to a control route may take to arrive. A relayed one may take as long as it moves; the agent looks after that. */
const REQUEST_TIMEOUT_MS = 30_000
/** How long a connection may be idle: longer than an agent is between two reports, so that it needs no new one for each. */
const KEEP_ALIVE_MS = 15_000
/** How long requests in flight may take after the listener has closed [contract 2.14]. */
const DRAIN_MS = 10_000

/** A bound port, and what answers there. */
export type Listener = {
  port: number
  /** Where this machine reaches it; other machines need the public URL. */
  localUrl: string
  /** Answers from now on, and what has waited for it. Called once. */
  serve(app: Hono<Env>, bytes: Bytes): void
  /** Ends it; requests in flight have 10 s. */
  close(): Promise<void>
}

/** A listening server that answers at once. */
export async function listen(app: Hono<Env>, bytes: Bytes, options: ListenOptions): Promise<Listener> {
  const listener = await bind(options)
  listener.serve(app, bytes)
  return listener
}

/** Binds the port, so that its number is known to what is built for it. Requests wait until there is something to answer them. */
export async function bind({ host, port: wanted, tls, trustedProxies = [], maxConnections }: ListenOptions): Promise<Listener> {
  let served: Served | undefined
  const waiting: ((served: Served) => void)[] = []
  const whenServed = (work: (served: Served) => void): void => {
    if (served === undefined) waiting.push(work)
    else work(served)
  }
  const answer: RequestListener = (request, response) => whenServed(({ listener }) => listener(request, response))
  const server = createServer(requireHost(answer), tls)
  const drain = drainable(server, tls === undefined ? 'connection' : 'secureConnection', DRAIN_MS)
  server.requestTimeout = 0
  server.keepAliveTimeout = KEEP_ALIVE_MS
  server.on('upgrade', (request, socket, head) => whenServed(({ bytes }) => bytes.upgrade(request, socket, head)))
  // What is relayed goes on when the agent says so.
  server.on('checkContinue', (request, response) =>
    whenServed(({ bytes }) => {
      if (!bytes.owns(request)) response.writeContinue()
      server.emit('request', request, response)
    }),
  )
  refuseInEnvelope(server)
  limitConnections(server, { trustedProxies, total: maxConnections })
  await new Promise<void>((resolve, reject) => {
    server.once('error', (thrown: NodeJS.ErrnoException) => reject(cannotListen(thrown, host, wanted)))
    server.listen(wanted, host, resolve)
  })
  const { port } = server.address() as AddressInfo
  return {
    port,
    localUrl: localUrl({ host, port }, tls !== undefined),
    serve(app, bytes) {
      served = { listener: listenerOf(app, bytes), bytes }
      for (const work of waiting.splice(0)) work(served)
    },
    async close() {
      // Nobody will answer what waits: the start has failed.
      if (served === undefined) server.closeAllConnections()
      await drain()
    },
  }
}

type Served = { listener: RequestListener; bytes: Bytes }

function listenerOf(app: Hono<Env>, relay: Bytes): RequestListener {
  const fetch = app.fetch as (request: Request) => Response | Promise<Response>
  const routes = getRequestListener(fetch, { errorHandler: refuseUnroutable })
  return (request, response) => {
    if (relay.owns(request)) return relay.handle(request, response)
    if (hasUnread(request)) {
      limitArrival(request)
      closeWhereUnread(request, response)
    }
    return routes(request, response)
  }
}

/** Node's own limit is one for all requests. */
function limitArrival(request: IncomingMessage): void {
  const timer = setTimeout(() => refuseLate(request.socket), REQUEST_TIMEOUT_MS)
  const arrived = () => clearTimeout(timer)
  request.once('end', arrived).once('close', arrived)
}

function createServer(listener: RequestListener, tls: ListenOptions['tls']): Server {
  if (tls === undefined) return createHttpServer(SERVER_OPTIONS, listener)
  const pems = { cert: readPem(tls.cert, 'cert'), key: readPem(tls.key, 'key') }
  try {
    return createHttpsServer({ ...SERVER_OPTIONS, ...pems }, listener)
  } catch (thrown) {
    throw notPem(thrown)
  }
}

const notPem = (cause: unknown): StartError =>
  new StartError('settings --tls-cert and --tls-key: the files are not a certificate and its key in PEM', { cause })

/** For an agent that shows the certificate of this file too. */
export function ownAgentTls(path: string): AgentTls {
  const pem = readPem(path, 'cert')
  try {
    return trustOwnAgent(pem)
  } catch (thrown) {
    throw notPem(thrown)
  }
}

/** HTTP whose host or path make no URL. */
function refuseUnroutable(thrown: unknown): Response {
  const error =
    thrown instanceof RequestError
      ? new BoxofficeError('INVALID_REQUEST', `the request has no valid URL: ${thrown.message}`, { cause: thrown })
      : fromUnknown(thrown)
  return refusalResponse(error, newRequestId())
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
