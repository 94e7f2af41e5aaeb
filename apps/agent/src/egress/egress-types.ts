import type { Duplex } from 'node:stream'
import type { EgressCode } from '@boxoffice/protocol'

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

export type EgressDenial = { code: EgressCode; host: string; rule?: string; hint: string }

/**
 * Decides about one request of a host that is allowed as such; `headers` are to be set (their old values removed), and the values of the
 * others are to be what `swap` makes of them.
 */
export type RequestVerdict =
  | { allowed: true; headers: readonly (readonly [name: string, value: string])[]; swap?: (value: string) => string }
  | { allowed: false; denial: EgressDenial }

/** `path` is normalised already, unless the gate says that it does not look at paths: what can be read in two ways passes then. */
export type RequestGate = { (request: { method: string; path: string }): RequestVerdict; readonly ignoresPaths?: boolean }

/** A connection whose requests are read, and where they go. */
export type ReadConnection = {
  connection: Duplex
  host: string
  port: number
  gate: RequestGate
  onDecision: (decision: EgressDecision) => void
  /** A connection to the origin, at an address that was checked. */
  dial: () => Promise<Duplex>
}

/** The HTTP forwarder: serves HTTP/1.1 of one client connection towards one origin. `dial`: with TLS done where `scheme` is https. */
export type ForwardHttp = (options: ReadConnection & { scheme: 'http' | 'https' }) => { destroy(): void }

/**
 * Opens TLS of one connection whose ClientHello has been peeked at and put back (`connection.unshift`). `dial`: without TLS; the opener does
 * that, and has the origin show a certificate for `host`.
 */
export type OpenTls = (options: ReadConnection) => { destroy(): void }
