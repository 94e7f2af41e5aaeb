import { Agent, type ClientRequest, createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { EgressRefusal } from '../address/egress-refusal.ts'
import type { EgressDenial, ForwardHttp } from '../egress-types.ts'
import { denyRequest, httpDenial } from './http-denial.ts'
import { normalPath } from './normal-path.ts'
import { headersOf, passedHeaders } from './passed-headers.ts'

const MAX_HEAD_BYTES = 64 * 1024
const IDLE_MS = 60_000

type Options = Parameters<ForwardHttp>[0]
/** What is sent on: the path in its normal form, and the headers without those that are set. */
type Passed = { path: string; set: readonly (readonly [string, string])[]; swap: (value: string) => string }

/**
 * Serves the requests of one connection from one origin. Each is held to the gate; a body is passed on as it comes. Two requests of a
 * connection may use one connection to the origin after each other.
 */
export const forwardHttp: ForwardHttp = (options) => {
  const { connection, scheme, host, port, gate, dial, onDecision } = options
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
    if (isUpgrade && !isWebSocket(incoming)) return tell(incoming, path, { code: 'bad_request', host, hint: UPGRADE_HINT })
    const method = incoming.method ?? ''
    const verdict = gate({ method, path })
    if (!verdict.allowed) return tell(incoming, path, verdict.denial)
    const at = { at: Date.now(), protocol: scheme === 'https' ? ('tls' as const) : ('http' as const) }
    onDecision({ ...at, allowed: true, host, port, method, path: withoutQuery(path) })
    return { path, set: verdict.headers, swap: verdict.swap ?? unchanged }
  }

  const tell = (incoming: IncomingMessage, path: string | undefined, denial: EgressDenial): EgressDenial => {
    const { method = '' } = incoming
    const where = { host, port, method, ...(path === undefined ? {} : { path: withoutQuery(path) }) }
    onDecision({ at: Date.now(), allowed: false, protocol: scheme === 'https' ? 'tls' : 'http', ...where, ...denial })
    return denial
  }

  const failed = (incoming: IncomingMessage, path: string, error: Error | undefined): EgressDenial => {
    const denial = error instanceof EgressRefusal ? error.denial : unreachable(host)
    return tell(incoming, path, denial)
  }

  /** Throws where Node takes what its parser has let through for no request. */
  const ask = (incoming: IncomingMessage, { path, set, swap }: Passed, isUpgrade: boolean): ClientRequest => {
    const replaced = new Set(set.map(([name]) => name.toLowerCase()))
    const passed = passedHeaders(incoming, { isUpgrade }).filter(([name]) => !replaced.has(name.toLowerCase()))
    const headers = passed.map(([name, value]) => [name, swap(value)])
    const isChunked = incoming.headers['transfer-encoding'] !== undefined
    // Without it Node sends the body of a GET behind the head as it is, and the origin takes that for the next request.
    const framing: [string, string][] = isChunked ? [['transfer-encoding', 'chunked']] : []
    const all = [...headers, ...framing, ...set].flat()
    const asked = request({ agent, host, port, method: incoming.method, path, setHost: false, headers: all })
    if (!isChunked && incoming.headers['content-length'] === undefined) asked.useChunkedEncodingByDefault = false
    return asked
  }

  const server = createServer({ maxHeaderSize: MAX_HEAD_BYTES, requestTimeout: 0, headersTimeout: 0, keepAliveTimeout: IDLE_MS })
  server.on('request', (incoming: IncomingMessage, response: ServerResponse) => {
    const passed = decide(incoming, false)
    if ('code' in passed) return denyRequest(response, passed)
    const fail = (error?: Error): void => {
      if (!response.closed) denyRequest(response, failed(incoming, passed.path, error))
    }
    const asked = attempt(() => ask(incoming, passed, false))
    if (asked === undefined) return fail()
    asked.on('error', fail)
    asked.on('response', (origin) => {
      const { statusCode = 502, statusMessage } = origin
      const headers = passedHeaders(origin, { isUpgrade: false }).flat()
      if (attempt(() => response.writeHead(statusCode, statusMessage, headers)) === undefined) return fail()
      origin.pipe(response)
      origin.on('close', () => origin.complete || response.destroy())
    })
    // An origin that changes the protocol unasked gives no response.
    asked.on('close', () => response.headersSent || fail())
    response.on('close', () => response.writableFinished || asked.destroy())
    incoming.pipe(asked)
  })
  server.on('upgrade', (incoming: IncomingMessage, client: Duplex, head: Buffer) => {
    const passed = decide(incoming, true)
    if ('code' in passed) return client.end(httpDenial(passed))
    const asked = attempt(() => ask(incoming, passed, true))
    const fail = (error?: Error): void => void client.end(httpDenial(failed(incoming, passed.path, error)))
    if (asked === undefined) return fail()
    asked.on('error', fail)
    asked.on('upgrade', (answer, origin, first) => {
      client.write(headOf(answer, true))
      if (first.length > 0) origin.unshift(first)
      if (head.length > 0) client.unshift(head)
      tie(client, origin)
      tie(origin, client)
    })
    asked.on('response', (answer) => {
      client.write(headOf(answer, false))
      answer.pipe(client)
    })
    client.on('close', () => asked.destroy())
    asked.end()
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

/** After any other upgrade, to HTTP/2 for one, requests would pass that the gate does not see. */
const isWebSocket = ({ headers }: IncomingMessage): boolean =>
  headers.upgrade?.toLowerCase() === 'websocket' && headers['transfer-encoding'] === undefined && (headers['content-length'] ?? '0') === '0'

const UPGRADE_HINT = 'a request may become a WebSocket, without a body, and nothing else'

/** The path of a request, or why it is none of this origin's. */
const pathOf = (incoming: IncomingMessage, { scheme, host, port }: Options): string | EgressDenial => {
  const { url = '', headers } = incoming
  const otherwise = scheme === 'https' ? 443 : 80
  const own = new Set([`${host}:${port}`, ...(port === otherwise ? [host] : [])])
  const [, authority, rest = ''] = /^https?:\/\/([^/?#]*)(.*)$/i.exec(url) ?? []
  const hosts = headersOf(incoming).filter(([name]) => name.toLowerCase() === 'host')
  const named = [...hosts.map(([, value]) => value), ...(authority === undefined ? [] : [authority])]
  if (hosts.length !== 1 || named.some((name) => !own.has(name.toLowerCase())))
    return { code: 'host_mismatch', host, hint: 'the Host header names another host than the connection is to' }
  if (headers['transfer-encoding'] !== undefined && headers['content-length'] !== undefined)
    return { code: 'bad_request', host, hint: 'the request has two lengths' }
  const path = normalPath(authority === undefined ? url : rest.startsWith('/') ? rest : `/${rest}`)
  return path ?? { code: 'bad_request', host, hint: 'the path can be read in two ways: encoded slashes, dots and backslashes are refused' }
}

/** Undefined where it throws. */
const attempt = <T>(step: () => T): T | undefined => {
  try {
    return step()
  } catch {
    return undefined
  }
}

const unchanged = (value: string): string => value

const withoutQuery = (path: string): string => (path.split('?', 1)[0] ?? '').slice(0, 1024)

const unreachable = (host: string): EgressDenial => ({
  code: 'unreachable',
  host,
  hint: 'the host could not be reached, or broke the connection',
})

const headOf = (answer: IncomingMessage, isUpgrade: boolean): Buffer => {
  const lines = passedHeaders(answer, { isUpgrade }).map(([name, value]) => `${name}: ${value}\r\n`)
  const end = isUpgrade ? '' : 'connection: close\r\n'
  return Buffer.from(`HTTP/1.1 ${answer.statusCode} ${answer.statusMessage}\r\n${lines.join('')}${end}\r\n`, 'latin1')
}

/** Passes one way on, and a break of it. */
const tie = (from: Duplex, to: Duplex): void => {
  from.pipe(to)
  from.on('error', () => {})
  from.once('close', () => from.readableEnded || to.destroy())
}
