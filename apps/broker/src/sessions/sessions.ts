import type { PrincipalLimit } from '@boxoffice/node-http'
import type { Profile } from '@boxoffice/protocol'
import type { Authorizer } from '../access/authorizer.ts'
import type { AgentClient } from '../agents/agent-client.ts'
import type { Placement } from '../agents/placement.ts'
import type { Log } from '../host/log.ts'
import type { Store } from '../store/store.ts'
import type { TokenIssuer } from '../tokens/issuer.ts'
import { SessionEffects } from './effects.ts'
import { Grants } from './grants.ts'
import { Members } from './members.ts'
import { Negotiator } from './negotiate.ts'
import { Provisioner } from './provisioner.ts'
import { SessionService } from './service.ts'
import { SessionMaker } from './session-maker.ts'
import { SessionWriter } from './session-writer.ts'
import { Threads } from './threads.ts'

export type SessionsOptions = {
  store: Store
  client: AgentClient
  placement: Placement
  authorizer: Authorizer
  issuer: TokenIssuer
  profiles: ReadonlyMap<string, Profile>
  tokenTtlSeconds: number
  /** Live sessions that a tenant may have. */
  maxSessions: number
  createLimit: PrincipalLimit
  brokerId: string
  log: Log
  now: () => number
}

/** All that sessions are made, used and ended by. */
export type Sessions = {
  service: SessionService
  members: Members
  threads: Threads
  writer: SessionWriter
  effects: SessionEffects
  provisioner: Provisioner
}

export function createSessions({ createLimit: limit, maxSessions, ...options }: SessionsOptions): Sessions {
  const { store, authorizer } = options
  const effects = new SessionEffects(options)
  const writer = new SessionWriter(store, effects, options.now)
  const provisioner = new Provisioner({ ...options, writer, effects })
  const grants = new Grants({ ...options, effects })
  const members = new Members({ ...options, writer, withdraw: (session, principal) => grants.withdraw(session, principal) })
  const cancel = (sessionId: string): void => provisioner.cancel(sessionId)
  const maker = new SessionMaker({ ...options, effects, grants, provisioner, limit, maxSessions })
  const negotiator = new Negotiator({ ...options, writer, maker, provisioner, grants, members })
  return {
    service: new SessionService({
      ...options,
      ...{ writer, negotiator, grants, cancel },
      suspendNow: (agent, session, mode) => effects.suspend(agent, session, mode),
    }),
    threads: new Threads({ store, writer, authorizer, cancel, now: options.now }),
    members,
    writer,
    effects,
    provisioner,
  }
}
