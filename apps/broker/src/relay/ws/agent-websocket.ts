import { createHash, randomBytes } from 'node:crypto'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { readAtMost } from '@boxoffice/node-http'
import { BoxofficeError, ErrorEnvelope, errorCodeFrom } from '@boxoffice/protocol'
import type { AgentRecord } from '../../store/store.ts'
import type { AgentConnection } from '../http1/agent-connection.ts'
import type { Connections, PooledConnection } from '../http1/connections.ts'
import { requestHead } from '../http1/headers.ts'
import { ResponseReader } from '../http1/response.ts'
import { headerOf, type ResponseHead } from '../http1/response-head.ts'
import { dialing } from '../http1/upstream.ts'

/** An upgraded connection to an agent, without a reader; `head` is what it has sent already. */
export type AgentWebSocket = { connection: AgentConnection; head: Buffer }

export type AgentWebSocketOptions = {
  connections: Connections
  /** The agent, and the broker's token for it. */
  authorized: { agent: AgentRecord; upstreamToken: string }
  path: string
  /** The client's. */
  headers: IncomingHttpHeaders
  /** Subprotocols to offer; the agent takes the one that was promised to the client. */
  protocols: readonly string[]
  requestId: string
  signal: AbortSignal
}

const ACCEPT_SUFFIX = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
const MAX_REFUSAL_BYTES = 64 * 1024
/** Longer than an agent waits for a sandbox to wake before it refuses [C-53]. */
const AGENT_SILENT_MS = 15_000

/** Opens a WebSocket to the agent, for a client that has been admitted. A refusal of the agent is thrown as it is. */
export async function openAgentWebSocket(options: AgentWebSocketOptions): Promise<AgentWebSocket> {
  const { connections, authorized, signal } = options
  const pooled = await dialing(() => connections.dial(authorized.agent), signal)
  const abort = (): void => pooled.connection.destroy()
  if (signal.aborted) abort()
  signal.addEventListener('abort', abort, { once: true })
  try {
    return await upgrade(options, pooled)
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

function upgrade(
  { authorized, path, headers, protocols, requestId }: AgentWebSocketOptions,
  { connection, endpoint }: PooledConnection,
): Promise<AgentWebSocket> {
  const key = randomBytes(16).toString('base64')
  const accept = createHash('sha1')
    .update(key + ACCEPT_SUFFIX)
    .digest('base64')
  const lines = [
    `GET ${endpoint.basePath}${path} HTTP/1.1`,
    `host: ${endpoint.authority}`,
    'connection: Upgrade',
    'upgrade: websocket',
    'sec-websocket-version: 13',
    `sec-websocket-key: ${key}`,
    ...(protocols.length === 0 ? [] : [`sec-websocket-protocol: ${protocols.join(', ')}`]),
    requestHead(headers, authorized.upstreamToken, requestId, (name) => name.startsWith('sec-websocket-')),
  ]
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    const late = setTimeout(() => refuse(silent()), AGENT_SILENT_MS)
    const refuse = (error: BoxofficeError): void => {
      clearTimeout(late)
      reject(error)
      connection.destroy()
    }
    const refused = (): void =>
      refuse(refusalFrom(Buffer.concat(chunks).toString(), headerOf(response.head as ResponseHead, 'retry-after')))
    const add = (part: Buffer): void => {
      size += part.length
      if (size > MAX_REFUSAL_BYTES) throw tooLong()
      chunks.push(Buffer.from(part))
    }
    const response = new ResponseReader('GET', {
      head(_head, whole) {
        if (whole === undefined) return
        add(whole)
        refused()
      },
      piece: add,
      end: refused,
      failed: (cause) => refuse(brokeOff(cause)),
      provisional() {},
      upgraded(head, rest) {
        if (headerOf(head, 'sec-websocket-accept') !== accept || headerOf(head, 'upgrade')?.toLowerCase() !== 'websocket')
          throw new Error('the answer to the upgrade is not one to ours')
        clearTimeout(late)
        // Until it has another reader nothing may come: what has come is not nobody's.
        connection.socket.pause()
        connection.reader = undefined
        resolve({ connection, head: Buffer.from(rest) })
      },
    })
    connection.reader = response
    connection.socket.write(`${lines.join('\r\n')}\r\n`, 'latin1')
  })
}

/** The envelope of a refusal, as an error. */
export async function refusalOf(response: IncomingMessage): Promise<BoxofficeError> {
  try {
    const body = await readAtMost(response, { limit: MAX_REFUSAL_BYTES, tooLong })
    return refusalFrom(body.toString(), response.headers['retry-after'])
  } catch (cause) {
    return brokeOff(cause)
  }
}

function refusalFrom(text: string, retryAfterText: string | undefined): BoxofficeError {
  try {
    const { error } = ErrorEnvelope.parse(JSON.parse(text))
    const retryAfter = Number(retryAfterText)
    return new BoxofficeError(errorCodeFrom(error.code) ?? 'BACKEND_UNAVAILABLE', error.message, {
      ...(error.details === undefined ? {} : { details: error.details }),
      ...(Number.isFinite(retryAfter) ? { retryAfter } : {}),
    })
  } catch (cause) {
    return brokeOff(cause)
  }
}

const tooLong = (): Error => new Error('the refusal is too long')

const silent = (): BoxofficeError =>
  new BoxofficeError('BACKEND_UNAVAILABLE', `the agent of this session has said nothing for ${AGENT_SILENT_MS / 1000} s; try again`, {
    retryAfter: 2,
    details: { reason: 'agent_silent' },
  })

const brokeOff = (cause: unknown): BoxofficeError =>
  new BoxofficeError('BACKEND_UNAVAILABLE', 'the agent of this session did not open the socket; try again', { retryAfter: 1, cause })
