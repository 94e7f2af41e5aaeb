import { Agent, type ClientRequest, createServer, type IncomingMessage, request } from 'node:http'
import { endToEndHeaders, framingOf, hasBody, namesWebSocket, passRequest, passUpgrade } from '@boxoffice/node-http'
import { EgressRefusal } from '../address/egress-refusal.ts'
import type { EgressDenial, ForwardHttp } from '../egress-types.ts'
import { denyRequest, httpDenial } from './http-denial.ts'
import { normalPath } from './normal-path.ts'

const MAX_HEAD_BYTES = 64 * 1024
const IDLE_MS = 60_000

type Options = Parameters<ForwardHttp>[0]
/** What is sent on: the path in its normal form, the headers that are set, and what becomes of the values of the others. */
type Passed = { path: string; set: readonly (readonly [string, string])[]; swap: (value: string) => string }

/**
 * Serves the requests of one connection from one origin. Each is held to the gate; a body is passed on as it comes. Two requests of a
 * connection may use one connection to the origin after each other.
 */
export const forwardHttp: ForwardHttp = (options) => {
  const { connection, scheme, host, port, gate, dial, onDecision } = options
  const protocol = scheme === 'https' ? 'tls' : 'http'
  const agent = new Agent({ keepAlive: true, maxSockets: 1, timeout: IDLE_MS })
  agent.createConnection = (_, done) => {
    dial().then(
      (origin) => done?.(null, origin),
      (error: Error) => done?.(error, undefined as never),
    )
    return undefined
  }

  const decide = (incoming: IncomingMessage, isUpgrade: boolean): Passed | EgressDenial => {
    const path = pathOf(incoming, options)
    if (typeof path !== 'string') return tell(incoming, undefined, path)
    if (isUpgrade && hasBody(incoming))
      return tell(incoming, path, { code: 'bad_request', host, hint: 'a request becomes a WebSocket without a body' })
    const method = incoming.method ?? ''
    const verdict = gate({ method, path })
    if (!verdict.allowed) return tell(incoming, path, verdict.denial)
    onDecision({ at: Date.now(), protocol, allowed: true, host, port, method, path: withoutQuery(path) })
    return { path, set: verdict.headers, swap: verdict.swap ?? unchanged }
  }

  const tell = (incoming: IncomingMessage, path: string | undefined, denial: EgressDenial): EgressDenial => {
    const { method = '' } = incoming
    const where = { host, port, method, ...(path === undefined ? {} : { path: withoutQuery(path) }) }
    onDecision({ at: Date.now(), allowed: false, protocol, ...where, ...denial })
    return denial
  }

  const failed = (incoming: IncomingMessage, path: string, error: unknown): EgressDenial =>
    tell(incoming, path, error instanceof EgressRefusal ? error.denial : unreachable(host))

  /** Throws where Node takes what its parser has let through for no request. */
  const begin = (incoming: IncomingMessage, { path, set, swap }: Passed, isUpgrade: boolean): ClientRequest => {
    const replaced = new Set(set.map(([name]) => name))
    const headers = passedHeaders(incoming, (lower) => !replaced.has(lower), swap)
    headers.push(...framingOf(incoming.headers, isUpgrade), ...set.flat())
    return request({ agent, host, port, method: incoming.method, path, setHost: false, headers })
  }

  const limits = { maxHeaderSize: MAX_HEAD_BYTES, requestTimeout: 0, headersTimeout: 0, keepAliveTimeout: IDLE_MS }
  const server = createServer({ ...limits, shouldUpgradeCallback: namesWebSocket })
  server.on('request', (incoming, outgoing) => {
    const passed = decide(incoming, false)
    if ('code' in passed) return denyRequest(outgoing, passed)
    passRequest({ incoming, outgoing, begin: () => begin(incoming, passed, false), headersOf: (origin) => passedHeaders(origin) }).catch(
      (error: unknown) => outgoing.closed || denyRequest(outgoing, failed(incoming, passed.path, error)),
    )
  })
  server.on('upgrade', (incoming, socket, head) => {
    const passed = decide(incoming, true)
    if ('code' in passed) return socket.end(httpDenial(passed))
    const work = async () =>
      passUpgrade({ socket, head, upstream: begin(incoming, passed, true), headersOf: (origin) => passedHeaders(origin) })
    work().catch((error: unknown) => socket.end(httpDenial(failed(incoming, passed.path, error))))
  })
  server.on('clientError', (_, client) => {
    if (client.writable) client.end(httpDenial({ code: 'bad_request', host, hint: 'this is no request that two readers read alike' }))
    else client.destroy()
  })
  connection.once('close', () => agent.destroy())
  server.emit('connection', connection)
  return {
    destroy() {
      agent.destroy()
      connection.destroy()
    },
  }
}

const every = (): boolean => true
const unchanged = (value: string): string => value

/** Those that the other side gets, as `[name, value, …]`, without what is of this connection or of proxies. `keeps`: by their names in lower case. */
const passedHeaders = ({ rawHeaders, headers }: IncomingMessage, keeps: (lower: string) => boolean = every, swap = unchanged): string[] => {
  const passed: string[] = []
  for (const [name, value, lower] of endToEndHeaders(rawHeaders, headers.connection))
    if (keeps(lower) && !lower.startsWith('proxy-')) passed.push(name, swap(value))
  return passed
}

/** The path of a request, or why it is none of this origin's. */
const pathOf = (incoming: IncomingMessage, { scheme, host, port, gate }: Options): string | EgressDenial => {
  const { url = '', headers, rawHeaders } = incoming
  const otherwise = scheme === 'https' ? 443 : 80
  const own = new Set([`${host}:${port}`, ...(port === otherwise ? [host] : [])])
  const [, authority, rest = ''] = /^https?:\/\/([^/?#]*)(.*)$/i.exec(url) ?? []
  const hosts = rawHeaders.filter((_, at) => at % 2 === 1 && rawHeaders[at - 1]?.toLowerCase() === 'host')
  const named = [...hosts, ...(authority === undefined ? [] : [authority])]
  if (hosts.length !== 1 || named.some((name) => !own.has(name.toLowerCase())))
    return { code: 'host_mismatch', host, hint: 'the Host header names another host than the connection is to' }
  if (headers['transfer-encoding'] !== undefined && headers['content-length'] !== undefined)
    return { code: 'bad_request', host, hint: 'the request has two lengths' }
  const asked = authority === undefined ? url : rest.startsWith('/') ? rest : `/${rest}`
  // npm asks for @scope%2fname: refused only where somebody decides by it.
  const path = normalPath(asked) ?? (gate.ignoresPaths && asked.startsWith('/') ? asked : undefined)
  return path ?? { code: 'bad_request', host, hint: 'the path can be read in two ways: encoded slashes, dots and backslashes are refused' }
}

const withoutQuery = (path: string): string => (path.split('?', 1)[0] ?? '').slice(0, 1024)

const unreachable = (host: string): EgressDenial => ({
  code: 'unreachable',
  host,
  hint: 'the host could not be reached, or broke the connection',
})
