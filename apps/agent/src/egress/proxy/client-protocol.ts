import type { Duplex } from 'node:stream'
import { EgressRefusal } from '../address/egress-refusal.ts'
import type { EgressDecision } from '../egress-types.ts'
import { httpDenial } from '../http/http-denial.ts'
import { endWith } from './end-with.ts'
import { BadHead, type HttpHead, parseHttpHead } from './http-head.ts'
import { absoluteTarget, connectTarget, type HostAndPort } from './http-target.ts'
import { Unreachable } from './origin-route.ts'
import { HeadFault, readHead } from './read-head.ts'
import { parseGreeting, parseSocksRequest, replyOf, SOCKS_REPLY, SOCKS_VERSION, SocksFault, socksMethod, socksReply } from './socks5.ts'

/** What a client asked for, in whichever protocol. */
export type ClientRequest = HostAndPort & {
  protocol: EgressDecision['protocol']
  /** Of absolute-form HTTP. */
  head?: HttpHead
  path?: string
  /** Tells the client that it is connected. */
  accept: () => void
}

type ClientProtocol = {
  read: (limitMs: number) => Promise<ClientRequest>
  /** Tells the client why not, and ends. */
  refuse: (refusal: EgressRefusal) => void
}

/** The protocol of a connection by its first byte; undefined where it is none that is spoken here. */
export async function protocolOf(connection: Duplex, limitMs: number): Promise<ClientProtocol | undefined> {
  const first = await readHead(connection, (bytes) => ({ value: bytes[0], used: 0 }), { limitMs })
  if (first === SOCKS_VERSION) return socks5(connection)
  return first !== undefined && /[A-Za-z]/.test(String.fromCharCode(first)) ? http(connection) : undefined
}

const http = (connection: Duplex): ClientProtocol => ({
  async read(limitMs) {
    const head = await readHead(connection, parseHttpHead, { limitMs })
    if (head.method !== 'CONNECT') return { protocol: 'http', head, ...absoluteTarget(head.target), accept: () => {} }
    const accept = (): void => void connection.write('HTTP/1.1 200 Connection established\r\n\r\n')
    return { protocol: 'connect', ...connectTarget(head.target), accept }
  },
  refuse: ({ denial }) => endWith(connection, httpDenial(denial)),
})

const socks5 = (connection: Duplex): ClientProtocol => ({
  async read(limitMs) {
    const isOpen = await readHead(connection, parseGreeting, { limitMs })
    if (!isOpen) throw new SocksFault('only connections without authentication are served')
    connection.write(socksMethod(true))
    const target = await readHead(connection, parseSocksRequest, { limitMs })
    return { protocol: 'socks5', ...target, accept: () => void connection.write(socksReply(SOCKS_REPLY.succeeded)) }
  },
  refuse(refusal) {
    const { code } = refusal.denial
    if (refusal.cause instanceof SocksFault && refusal.cause.reply === undefined) return endWith(connection, socksMethod(false))
    const fault = refusal.cause instanceof SocksFault ? refusal.cause.reply : undefined
    endWith(connection, socksReply(fault ?? replyOf(code, refusal instanceof Unreachable && refusal.isConnectionRefused)))
  },
})

/** What a client is told of an error; undefined for one that is none of its own making. */
export function refusalFor(error: unknown): EgressRefusal | undefined {
  if (error instanceof EgressRefusal) return error
  if (error instanceof BadHead || error instanceof SocksFault) return withCause(new EgressRefusal('bad_request', '', error.message), error)
  if (error instanceof HeadFault && error.why !== 'ended') return new EgressRefusal('bad_request', '', FAULTS[error.why])
  return undefined
}

const FAULTS = { too_large: 'the head is larger than 16 KiB', too_slow: 'the head did not come in time' }

const withCause = (refusal: EgressRefusal, cause: Error): EgressRefusal => Object.assign(refusal, { cause })
