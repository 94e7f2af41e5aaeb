import { isLoopback } from '@boxoffice/kit/is-loopback'
import { parseListenAddress } from '@boxoffice/kit/listen-address'
import type { SandboxUntold } from '@boxoffice/protocol'
import { getRequestListener } from '@hono/node-server'
import { createControlVerifier } from '../auth/control-auth.ts'
import type { BrokerTrust } from '../broker-link/broker-trust.ts'
import type { Journal } from '../broker-link/journal.ts'
import type { AgentConfig } from '../config/config.ts'
import { httpServer, listen, type Tls } from '../http/listeners.ts'
import { type ControlOptions, createControlApp } from './control.ts'

export type ServeControlOptions = Pick<ControlOptions, 'manager' | 'exposed' | 'instance' | 'log'> & {
  config: Pick<AgentConfig, 'controlListen' | 'trustedProxies' | 'maxConnections'>
  tls: Tls
  trust: BrokerTrust
  /** The id that the broker has given to this agent; undefined until it has registered. */
  agentId: () => string | undefined
  journal: Journal
}

/** Listens for the broker. Returns where, and what ends it. */
export const serveControl = async ({
  config,
  tls,
  trust,
  agentId,
  journal,
  ...options
}: ServeControlOptions): Promise<{ url: string; drain: () => Promise<void> }> => {
  const { keys, issuer, binding, clock, revocations, takeKeys: onKeys } = trust
  const untold = (sandboxId: string): SandboxUntold | undefined => {
    const seq = journal.lastOf(sandboxId)
    return seq === undefined ? undefined : { instance_id: options.instance.instance_id, journal_seq: seq }
  }
  const { host, port } = parseListenAddress(config.controlListen)
  // A loopback listener needs no TLS [C-79], and no certificate is for it.
  const itsTls = isLoopback(host) ? undefined : tls
  const verify = createControlVerifier({ keys, issuer, agentId, binding, now: clock.now })
  const app = createControlApp({ ...options, revocations, onKeys, untold, verify })
  const { server, drain } = httpServer(itsTls, getRequestListener(app.fetch), config)
  return { url: await listen(server, host, port, itsTls), drain }
}
