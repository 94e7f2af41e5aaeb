import type { AgentClient } from '../agents/agent-client.ts'
import type { Placement } from '../agents/placement.ts'
import type { AgentSilence } from '../agents/silence.ts'
import type { ResolvedBrokerConfig } from '../config/config.ts'
import type { Log } from '../host/log.ts'
import type { Inventory } from '../registration/inventory.ts'
import { LostAgents } from '../registration/lost-agents.ts'
import type { Sessions } from '../sessions/sessions.ts'
import type { Store } from '../store/store.ts'
import type { SigningKeys } from '../tokens/keys.ts'
import { IdleCheck } from './idle-check.ts'
import type { LiveBrokers } from './live-brokers.ts'
import { Reaper } from './reaper.ts'

export type UpkeepOptions = {
  settings: ResolvedBrokerConfig
  store: Store
  client: AgentClient
  sessions: Pick<Sessions, 'writer' | 'provisioner' | 'effects'>
  inventory: Inventory
  placement: Placement
  silence: AgentSilence
  liveBrokers: LiveBrokers
  keys: SigningKeys
  brokerId: string
  log: Log
  now: () => number
  monotonic: () => number
}

/** The reaper with what it looks at. */
export function createReaper({ settings, client, sessions, inventory, placement, silence, ...options }: UpkeepOptions): Reaper {
  const { store, log, now } = options
  return new Reaper({
    ...options,
    writer: sessions.writer,
    provisioner: sessions.provisioner,
    effects: sessions.effects,
    silence,
    lostAgents: new LostAgents({ store, inventory, lostAfterMs: settings.agentLostAfter * 1000, silence, now }),
    idleCheck: new IdleCheck({ client, inventory, placement, log, now }),
    keyRotationMs: settings.keyRotation * 1000,
    intervalMs: settings.reaperIntervalMs,
    brokerTimeoutMs: settings.brokerTimeout * 1000,
  })
}
