import { createHash, randomBytes } from 'node:crypto'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { BoxofficeError, ErrorEnvelope, errorCodeFrom } from '@boxoffice/protocol'
import type { Passage } from './admission.ts'
import { toAgent } from './headers.ts'
import { DialFailed, dialing, type Upstream } from './upstream.ts'

/** An upgraded connection to an agent; `head` is what it has sent already. */
export type Link = { socket: Socket; head: Buffer }

export type LinkOptions = {
  upstream: Upstream
  passage: Passage
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

/** Opens a WebSocket to the agent, for a client that has been admitted. A refusal of the agent is thrown as it is. */
export const openLink = (options: LinkOptions): Promise<Link> => dialing(() => upgrade(options), options.signal)

function upgrade({ upstream, passage, path, headers, protocols, requestId, signal }: LinkOptions): Promise<Link> {
  const key = randomBytes(16).toString('base64')
  const accept = createHash('sha1')
    .update(key + ACCEPT_SUFFIX)
    .digest('base64')
  const request = upstream.request(passage.agent, {
    own: true,
    method: 'GET',
    path,
    signal,
    headers: {
      ...withoutHandshake(toAgent(headers, passage.upstreamToken, requestId)),
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': key,
      ...(protocols.length === 0 ? {} : { 'sec-websocket-protocol': protocols.join(', ') }),
    },
  })
  return new Promise((resolve, reject) => {
    let connected = false
    request.once('socket', (socket) => socket.once('connect', () => (connected = true)))
    request.on('error', (cause) => reject(connected ? brokeOff(cause) : new DialFailed('no connection', { cause })))
    request.once('response', (response) => void refusalOf(response).then(reject))
    request.once('upgrade', (response, socket, head) => {
      if (response.headers['sec-websocket-accept'] === accept && !signal.aborted) return resolve({ socket: socket as Socket, head })
      socket.destroy()
      reject(brokeOff(new Error('the answer to the upgrade is not one to ours')))
    })
    request.end()
  })
}

const withoutHandshake = (headers: ReturnType<typeof toAgent>): ReturnType<typeof toAgent> =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !name.startsWith('sec-websocket-')))

/** The envelope of a refusal, as an error. */
export async function refusalOf(response: IncomingMessage): Promise<BoxofficeError> {
  try {
    const chunks: Buffer[] = []
    let size = 0
    for await (const chunk of response as AsyncIterable<Buffer>) {
      size += chunk.length
      if (size > MAX_REFUSAL_BYTES) throw new Error('the refusal is too long')
      chunks.push(chunk)
    }
    const { error } = ErrorEnvelope.parse(JSON.parse(Buffer.concat(chunks).toString()))
    const retryAfter = Number(response.headers['retry-after'])
    return new BoxofficeError(errorCodeFrom(error.code) ?? 'BACKEND_UNAVAILABLE', error.message, {
      ...(error.details === undefined ? {} : { details: error.details }),
      ...(Number.isFinite(retryAfter) ? { retryAfter } : {}),
    })
  } catch (cause) {
    return brokeOff(cause)
  }
}

const brokeOff = (cause: unknown): BoxofficeError =>
  new BoxofficeError('BACKEND_UNAVAILABLE', 'the agent of this session did not open the socket; try again', { retryAfter: 1, cause })
