import type { Duplex } from 'node:stream'
import type { EgressPolicy } from '@boxoffice/protocol'
import { type Dial, dialTcp } from '../address/dial-addresses.ts'
import { EgressRefusal } from '../address/egress-refusal.ts'
import { addressesOfHost, type Resolve, resolveByHost } from '../address/resolve-host.ts'
import type { EgressDecision, ForwardHttp, OpenTls } from '../egress-types.ts'
import { compilePolicy, type PolicyOptions } from '../policy/egress-rules.ts'
import { ByteCounter } from './byte-counter.ts'
import { EgressConnection } from './egress-connection.ts'
import type { EgressContext, EgressLimits } from './egress-context.ts'
import type { Upstream } from './upstream-from.ts'

export type EgressProxyOptions = PolicyOptions & {
  policy: EgressPolicy
  forwardHttp: ForwardHttp
  openTls: OpenTls
  onDecision: (decision: EgressDecision) => void
  /** The proxy that the agent itself has to go through. It resolves names, so their addresses are not checked. */
  upstream?: Upstream | undefined
  resolve?: Resolve
  dial?: Dial
  ownAddresses?: () => ReadonlySet<string>
  limits?: Partial<EgressLimits>
}

/** The egress proxy of one sandbox. */
export type EgressProxy = {
  /** Serves one connection: HTTP CONNECT, HTTP with absolute URLs, or SOCKS5. It should allow half-open ends. */
  accept(connection: Duplex): void
  /**
   * Changes the policy at once. Cuts the connections about which it says anything else; the others go on. Throws INVALID_REQUEST and
   * changes nothing where the policy cannot be compiled.
   */
  setPolicy(policy: EgressPolicy): void
  /** How many are open. */
  readonly connections: number
  /** Of all connections to origins since the start. */
  readonly bytes: { readonly sent: number; readonly received: number }
  /** Cuts all connections and takes no more. */
  close(): void
}

/** Above the limit so many clients at a time are told why; the others are closed. */
const TOLD_ABOVE_LIMIT = 64

/** Starts the egress proxy of one sandbox. Throws INVALID_REQUEST where the policy cannot be compiled. */
export function createEgressProxy(options: EgressProxyOptions): EgressProxy {
  const { forwardHttp, openTls, onDecision, upstream } = options
  const { resolve = resolveByHost, dial = dialTcp, ownAddresses = addressesOfHost } = options
  const limits = { connections: 256, headMs: 10_000, dialMs: 10_000, ...options.limits }
  let rules = compilePolicy(options.policy, options)
  let isClosed = false
  const counter = new ByteCounter()
  const open = new Set<EgressConnection>()
  const told = new Set<EgressConnection>()
  const count = (origin: Duplex): void => counter.add(origin)
  const context: EgressContext = {
    ...{ rules: () => rules, resolve, dial, ownAddresses, upstream, forwardHttp, openTls, onDecision, count, limits },
  }

  return {
    accept(connection) {
      const isTooMany = open.size >= limits.connections
      if (isClosed || (isTooMany && told.size >= TOLD_ABOVE_LIMIT)) return void connection.on('error', () => {}).destroy()
      const one = new EgressConnection(connection, context)
      const among = isTooMany ? told : open
      among.add(one)
      connection.once('close', () => among.delete(one))
      void one.serve(isTooMany ? (host) => tooMany(host, limits.connections) : undefined)
    },
    setPolicy(policy) {
      rules = compilePolicy(policy, options)
      for (const one of open) one.recheck(rules)
    },
    get connections() {
      return open.size
    },
    get bytes() {
      return counter.total
    },
    close() {
      isClosed = true
      for (const one of [...open, ...told]) one.cut()
    },
  }
}

const tooMany = (host: string, limit: number): EgressRefusal =>
  new EgressRefusal('too_many_connections', host, `the sandbox has ${limit} connections, which is the limit; close some`)
