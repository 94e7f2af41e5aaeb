import type { EgressCode } from '@boxoffice/protocol'
import { type Host, parseHost } from '../address/parse-host.ts'
import type { Parse } from './read-head.ts'

/** RFC 1928. */
export const SOCKS_VERSION = 5
const NO_AUTHENTICATION = 0
const CONNECT = 1

/** What follows the version in an answer. */
export const SOCKS_REPLY = {
  succeeded: 0,
  generalFailure: 1,
  notAllowed: 2,
  hostUnreachable: 4,
  connectionRefused: 5,
  commandNotSupported: 7,
  addressTypeNotSupported: 8,
} as const
export type SocksReply = (typeof SOCKS_REPLY)[keyof typeof SOCKS_REPLY]

/** Thrown for bytes that are no SOCKS5, or ask for what is not offered; `reply` is its number, undefined where none is due. */
export class SocksFault extends Error {
  readonly reply: SocksReply | undefined

  constructor(message: string, reply?: SocksReply) {
    super(message)
    this.reply = reply
  }
}

/** Reads which methods a client offers: whether one without authentication is among them. */
export const parseGreeting: Parse<boolean> = (bytes) => {
  const [version, count] = bytes
  if (version !== undefined && version !== SOCKS_VERSION) throw new SocksFault('not SOCKS5')
  if (count === undefined || bytes.length < 2 + count) return undefined
  return { value: bytes.subarray(2, 2 + count).includes(NO_AUTHENTICATION), used: 2 + count }
}

/** Reads where a client wants to connect. Throws `SocksFault`. */
export const parseSocksRequest: Parse<{ host: Host; port: number }> = (bytes) => {
  const [version, command, , type, first] = bytes
  if (version !== undefined && version !== SOCKS_VERSION) throw new SocksFault('not SOCKS5')
  if (command === undefined) return undefined
  if (command !== CONNECT) throw new SocksFault('only CONNECT is served', SOCKS_REPLY.commandNotSupported)
  if (type === undefined || first === undefined) return undefined
  const layout = LAYOUTS[type]
  if (layout === undefined) throw new SocksFault('unknown type of address', SOCKS_REPLY.addressTypeNotSupported)
  const { from, length, text } = layout(first)
  if (bytes.length < from + length + 2) return undefined
  const host = parseHost(text(bytes.subarray(from, from + length)))
  const port = bytes.readUInt16BE(from + length)
  if (host === undefined || port === 0) throw new SocksFault('the target is no host with a port', SOCKS_REPLY.generalFailure)
  return { value: { host, port }, used: from + length + 2 }
}

type Layout = (first: number) => { from: number; length: number; text: (bytes: Buffer) => string }

/** By the number of the type of address. */
const LAYOUTS: Partial<Record<number, Layout>> = {
  1: () => ({ from: 4, length: 4, text: (bytes) => bytes.join('.') }),
  3: (length) => ({ from: 5, length, text: (bytes) => bytes.toString() }),
  4: () => ({ from: 4, length: 16, text: (bytes) => `[${(bytes.toString('hex').match(/.{4}/g) ?? []).join(':')}]` }),
}

/** The answer to a greeting. */
export const socksMethod = (isAccepted: boolean): Buffer => Buffer.of(SOCKS_VERSION, isAccepted ? NO_AUTHENTICATION : 0xff)

/** The answer to a request; the address that it names is none of this host. */
export const socksReply = (reply: SocksReply): Buffer => Buffer.of(SOCKS_VERSION, reply, 0, 1, 0, 0, 0, 0, 0, 0)

export const replyOf = (code: EgressCode, isRefused: boolean): SocksReply => {
  if (code === 'unresolvable') return SOCKS_REPLY.hostUnreachable
  if (code === 'unreachable') return isRefused ? SOCKS_REPLY.connectionRefused : SOCKS_REPLY.hostUnreachable
  return code === 'bad_request' ? SOCKS_REPLY.generalFailure : SOCKS_REPLY.notAllowed
}
