import assert from 'node:assert/strict'
import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import { type Duplex, duplexPair } from 'node:stream'
import { parseTarget, sandboxPath } from '../../../apps/broker/src/agents/endpoint.ts'
import { forward } from '../../../apps/broker/src/relay/http.ts'
import type { AgentConnection, Reader } from '../../../apps/broker/src/relay/http1/agent-connection.ts'
import type { Connections } from '../../../apps/broker/src/relay/http1/connections.ts'
import { refuseRetargeting } from '../../../apps/broker/src/relay/http1/headers.ts'
import { ReadBuffer } from '../../../apps/broker/src/relay/http1/read-buffers.ts'
import type { AuthorizedSession } from '../../../apps/broker/src/relay/session-authorizer.ts'
import { refuseInEnvelope, requireHost, SERVER_OPTIONS } from '../../../packages/node-http/src/index.ts'
import { BoxofficeError } from '../../../packages/protocol/src/index.ts'
import { mutated } from '../mutate.ts'
import type { Random } from '../random.ts'
import type { FuzzTarget } from '../target.ts'

const TOKEN = 'upstream.token'
const PATHS = ['exec', 'files?path=a', 'files/download?path=%2e%2e', 'execs/e1/state', 'a/../b', '%2e%2e/x']
const HEADERS = [
  ...['X-Request-Id: 1', 'Cookie: a=b', 'X-Api-Key: secret', 'X-Forwarded-For: 1.2.3.4', 'Forwarded: for=x', 'TE: trailers', 'Origin: x'],
  ...['Connection: keep-alive', 'Connection: close, x-named', 'X-Named: z', 'Connection: content-length', 'Expect: 100-continue', 'A: b'],
]
const WORDS = [
  ...['\r\n', '\r', '\n', '\r\n\r\n', ' ', '\t', '\0', ':', ',', '0', '5', '-1', '0x5', 'chunked', 'gzip, ', '/../', '%2f', '//', '#', '?'],
  ...['Content-Length: 5\r\n', 'Content-Length: 0\r\n', 'Transfer-Encoding: chunked\r\n', 'transfer-encoding: identity\r\n', ' folded\r\n'],
  ...['Authorization: Bearer mine\r\n', 'Host: other\r\n', 'X-Original-Url: /x\r\n', 'Connection: transfer-encoding\r\n', 'Trailer: X\r\n'],
  ...[
    'Connection: authorization\r\n',
    'GET / HTTP/1.1\r\nHost: b\r\n\r\n',
    'HTTP/1.0',
    'HEAD',
    'OPTIONS',
    'Upgrade: x\r\n',
    '0\r\nX: y\r\n\r\n',
  ],
]

const request = (random: Random): string => {
  const lines = Array.from({ length: random.below(4) }, () => `${random.of(HEADERS)}\r\n`).join('')
  const head = (method: string): string =>
    `${method} /v1/sandbox/relay/ssn_1/v1/${random.of(PATHS)} HTTP/1.1\r\nHost: b\r\nAuthorization: Bearer mine\r\n${lines}`
  const body = 'hello there'.slice(0, random.below(12))
  switch (random.below(3)) {
    case 0:
      return `${head('POST')}Content-Length: ${body.length}\r\n\r\n${body}`
    case 1: {
      const chunks = body === '' ? '' : `${body.length.toString(16)}\r\n${body}\r\n`
      return `${head('POST')}Transfer-Encoding: chunked\r\n\r\n${chunks}0\r\n\r\n`
    }
    default:
      return `${head(random.of(['GET', 'DELETE']))}\r\n`
  }
}

type Seen = { method: string | undefined; path: string | undefined; headers: IncomingMessage['headers']; body: string | undefined }

/** Lets a server read `input`, and resolves when it has closed the connection. */
const serve = (input: Buffer, listener: RequestListener): Promise<void> =>
  new Promise((resolve) => {
    const server = createServer(SERVER_OPTIONS, listener)
    // The input ends at once, and is answered all the same.
    Object.assign(server, { httpAllowHalfOpen: true })
    refuseInEnvelope(server)
    server.on('upgrade', (_request, socket: Duplex) => socket.destroy())
    const [client, socket] = duplexPair()
    socket.once('close', () => {
      client.destroy()
      resolve()
    })
    // A stream in memory lives on when both sides have ended.
    client.on('end', () => socket.destroy()).on('error', () => {})
    client.resume()
    server.emit('connection', socket)
    client.end(input)
  })

const record = (seen: Seen[]): RequestListener =>
  requireHost((incoming, outgoing) => {
    const { method, url, headers } = incoming
    const one: Seen = { method, path: url, headers, body: undefined }
    seen.push(one)
    const parts: Buffer[] = []
    incoming.on('data', (part: Buffer) => parts.push(part)).on('error', () => {})
    incoming.on('end', () => {
      one.body = Buffer.concat(parts).toString('latin1')
      outgoing.end('answer')
    })
  })

/** A connection to an agent that notes what it gets. */
const agentOf = (seen: Seen[]): Connections => {
  const dial = () => {
    const [socket, agent] = duplexPair()
    let reader: Reader | undefined
    const connection = {
      socket,
      set reader(next: Reader | undefined) {
        reader = next
      },
      destroy: () => void socket.destroy(),
    }
    socket.on('data', (chunk: Buffer) => reader?.bytes(chunk, ReadBuffer.small()))
    socket.on('close', () => reader?.closed(true)).on('error', () => {})
    const server = createServer(SERVER_OPTIONS, record(seen))
    refuseInEnvelope(server)
    agent.on('error', () => {})
    socket.once('close', () => agent.destroy())
    agent.once('close', () => socket.destroy())
    server.emit('connection', agent)
    const endpoint = { authority: 'agent', basePath: '/base' }
    return { connection: connection as unknown as AgentConnection, endpoint, giveBack: () => connection.destroy() }
  }
  return { kept: () => undefined, dial: () => Promise.resolve(dial()), close() {} }
}

const authorized = { upstreamToken: TOKEN, session: { sandboxId: 'sbx_1' } } as AuthorizedSession

/** What a client sends, as the broker's server reads it and an agent's does behind the relay. */
const throughRelay = async (input: Buffer): Promise<{ expected: Seen[]; arrived: Seen[] }> => {
  const read: Seen[] = []
  await serve(input, record(read))
  const expected: Seen[] = []
  const arrived: Seen[] = []
  const connections = agentOf(arrived)
  let number = 0
  const relay: RequestListener = requireHost((incoming, outgoing) => {
    const client = read[number++] as Seen
    const failed = (thrown: unknown): void => {
      // Whatever is no refusal of ours fails the run.
      if (!(thrown instanceof BoxofficeError)) expected.push({ ...client, path: String(thrown) })
      outgoing.writeHead(400, { connection: 'close' }).end()
    }
    try {
      refuseRetargeting(incoming.headers)
      const { path, query } = parseTarget(incoming.url ?? '/')
      if (path === undefined) return void outgoing.end()
      const target = sandboxPath('sbx_1', path, query)
      expected.push({ ...client, path: `/base${target}` })
      forward({ incoming, outgoing, authorized, requestId: 'req', connections, path: target }).catch(failed)
    } catch (thrown) {
      failed(thrown)
    }
  })
  await serve(input, relay)
  return { expected, arrived }
}

/**
 * A client's requests, several on one connection: the agent sees the ones that the relay admitted, in their order, with the same method,
 * body and the checked path; the broker's credential and none of the client's; and never one request more.
 */
export default {
  generate: (random) => mutated(random, Buffer.from(request(random) + (random.once(4) ? request(random) : '')), WORDS),
  async check(input) {
    const { expected, arrived } = await throughRelay(input)
    assert(arrived.length <= expected.length, `${arrived.length} requests of ${expected.length} arrived`)
    const gotBody = expected.filter(({ body }) => body !== undefined)
    for (const [i, { method, path, headers, body }] of arrived.entries()) {
      const one = expected[i] as Seen
      assert.deepEqual([method, path], [one.method, one.path])
      if (body !== undefined) assert.equal(body, one.body)
      assert.deepEqual([headers.host, headers.authorization, headers['x-request-id']], ['agent', `Bearer ${TOKEN}`, 'req'])
      for (const name of ['cookie', 'x-api-key', 'forwarded', 'origin', 'te', 'upgrade', 'trailer', 'proxy-authorization'])
        assert.equal(headers[name], undefined, name)
      for (const name in headers) assert(!/^x-(?:forwarded|original|rewrite|sandbox)-/.test(name), name)
    }
    return gotBody.length > 0 && arrived.length > 0
  },
} satisfies FuzzTarget
