import type { Profile } from '@boxoffice/protocol'
import { NodeAgents } from '../access/node-agents.ts'
import type { AgentClient } from '../agents/agent-client.ts'
import type { AgentDirectory } from '../agents/agent-directory.ts'
import type { AgentSilence } from '../agents/silence.ts'
import { isExposed, type ResolvedBrokerConfig } from '../config/config.ts'
import type { Log } from '../host/log.ts'
import type { Sessions } from '../sessions/sessions.ts'
import type { Store } from '../store/store.ts'
import type { TokenIssuer } from '../tokens/issuer.ts'
import type { SigningKeys } from '../tokens/keys.ts'
import { Enrollment } from './enrollment.ts'
import { InstallPresence } from './install-presence.ts'
import { Inventory } from './inventory.ts'
import { JournalIntake } from './journal-intake.ts'
import { AgentProofs } from './proof.ts'
import { AgentRegistry } from './registry.ts'
import { ReportPace } from './report-pace.ts'

export type RegistrationOptions = {
  settings: ResolvedBrokerConfig
  store: Store
  client: AgentClient
  sessions: Pick<Sessions, 'writer' | 'effects'>
  keys: SigningKeys
  issuer: TokenIssuer
  profiles: ReadonlyMap<string, Profile>
  silence: AgentSilence
  directory: AgentDirectory
  /** What agents register with, beside the tokens that operators make. */
  enrollToken: string
  log: Log
  now: () => number
  monotonic: () => number
}

/** How agents come to the broker, and what their reports make of its sessions. */
export type Registration = { registry: AgentRegistry; enrollment: Enrollment; inventory: Inventory }

export function createRegistration({ settings, sessions, enrollToken, monotonic, ...options }: RegistrationOptions): Registration {
  const { store, issuer, client, silence, log, now } = options
  const { writer, effects } = sessions
  const inventory = new Inventory({ store, writer, effects, log, now })
  const { kubernetesAgents } = settings
  const nodeAgents = kubernetesAgents && new NodeAgents(kubernetesAgents, now, monotonic)
  const enrollment = new Enrollment({ configured: enrollToken, tokens: store.enrollTokens, nodeAgents, now })
  const registry = new AgentRegistry({
    ...options,
    inventory,
    enrollment,
    journal: new JournalIntake({ store, now }),
    proofs: new AgentProofs({ challenges: store.challenges, issuer: () => issuer.issuer, now }),
    presence: new InstallPresence({ client, silence, silentAfterMs: settings.agentTimeout * 1000 }),
    exposed: isExposed(settings),
    tokenTtlSeconds: settings.tokenTtl,
    pace: new ReportPace({ silence, leastSeconds: settings.agentHeartbeat, timeoutSeconds: settings.agentTimeout, monotonic }),
  })
  return { registry, enrollment, inventory }
}
