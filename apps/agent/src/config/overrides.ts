import type { ProviderReport } from '@boxoffice/protocol'
import type { Logger } from 'pino'
import type { BrokerClient } from '../broker-link/broker-client.ts'
import type { EgressSettings } from '../egress/sandbox/sandbox-egress.ts'
import type { Candidate } from '../sandbox/provider.ts'

/** Parts that tests and `boxoffice up` bring along instead of the usual ones. */
export type AgentOverrides = {
  log?: Logger
  broker?: BrokerClient
  candidates?: readonly Candidate[]
  /** The PEM certificate by which the broker is known, where its name cannot be in one. */
  brokerCertificate?: string
  /** A part of the same process listens where others can reach it. */
  exposed?: boolean
  /** The broker is in this process: it relays to the listener itself, whatever clients reach it by. */
  besideBroker?: boolean
  /** For what alone its sandboxes are; undefined: for everything. */
  reserved?: ProviderReport['reserved']
  /** The broker was away at the start, and then did not take this agent: it is of no use, and its owner closes it. */
  onRefused?: (error: Error) => void
  /** How sandboxes resolve names, and what they may reach at whatever address. */
  egress?: EgressSettings
  /** This machine's clock, Unix milliseconds. */
  wall?: () => number
}
