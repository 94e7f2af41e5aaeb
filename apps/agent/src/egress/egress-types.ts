import type { Duplex } from 'node:stream'

/** What was decided about one connection or request. `at` is in milliseconds since 1970. */
export type EgressDecision = {
  at: number
  allowed: boolean
  host: string
  port: number
  protocol: 'connect' | 'http' | 'socks5' | 'tls'
  /** Where a request could be read. */
  method?: string
  path?: string
  /** Why not: the machine-readable reason. */
  code?: EgressCode
  rule?: string
  hint?: string
}

export type EgressCode =
  | 'not_allowed'
  | 'denied'
  | 'method_not_allowed'
  | 'path_not_allowed'
  | 'private_address'
  | 'unresolvable'
  | 'unreachable'
  | 'sni_mismatch'
  | 'host_mismatch'
  | 'bad_request'
  | 'too_many_connections'
  | 'port_refused'
  | 'not_tls'
  | 'secret_missing'

export type EgressDenial = { code: EgressCode; host: string; rule?: string; hint: string }

/**
 * Decides about one request of a host that is allowed as such; `headers` are to be set (their old values removed), and the values of the
 * others are to be what `swap` makes of them.
 */
export type RequestVerdict =
  | { allowed: true; headers: readonly (readonly [name: string, value: string])[]; swap?: (value: string) => string }
  | { allowed: false; denial: EgressDenial }

/** `path` is normalised already. */
export type RequestGate = (request: { method: string; path: string }) => RequestVerdict

/** The HTTP forwarder: serves HTTP/1.1 of one client connection towards one origin. */
export type ForwardHttp = (options: {
  connection: Duplex
  scheme: 'http' | 'https'
  host: string
  port: number
  gate: RequestGate
  /** A connection to the origin, TLS done where `scheme` is https. */
  dial: () => Promise<Duplex>
  onDecision: (decision: EgressDecision) => void
}) => { destroy(): void }

/** Opens TLS of one connection whose ClientHello has been peeked at and put back (`connection.unshift`). */
export type OpenTls = (options: {
  connection: Duplex
  host: string
  port: number
  gate: RequestGate
  /** Plain TCP to the checked address; the opener does TLS to the origin on it, verifying `host`. */
  dial: () => Promise<Duplex>
  onDecision: (decision: EgressDecision) => void
}) => { destroy(): void }
