import type { Duplex } from 'node:stream'
import type { Dial } from '../address/dial-addresses.ts'
import type { Resolve } from '../address/resolve-host.ts'
import type { EgressDecision, ForwardHttp, OpenTls } from '../egress-types.ts'
import type { EgressRules } from '../policy/egress-rules.ts'
import type { Upstream } from './upstream-from.ts'

/** What all connections of one proxy have in common. */
export type EgressContext = {
  /** Those of now: `setPolicy` changes them. */
  rules: () => EgressRules
  resolve: Resolve
  dial: Dial
  ownAddresses: () => ReadonlySet<string>
  /** The proxy of the agent itself. */
  upstream: Upstream | undefined
  forwardHttp: ForwardHttp
  openTls: OpenTls
  onDecision: (decision: EgressDecision) => void
  /** Counts the bytes of a connection to an origin. */
  count: (origin: Duplex) => void
  limits: EgressLimits
}

export type EgressLimits = {
  /** Of one sandbox at a time. */
  connections: number
  /** Until a head, or the beginning of TLS, has to be there. */
  headMs: number
  /** Until a name is resolved, and until one of its addresses has taken the connection. */
  dialMs: number
}
