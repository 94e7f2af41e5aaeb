import { auditEntry, type Origin, systemOrigin } from '../domain/audit-entry.ts'
import type { Log } from '../host/log.ts'
import type { Store } from '../store/store.ts'
import type { TokenIssuer } from '../tokens/issuer.ts'
import type { SigningKeys } from '../tokens/keys.ts'
import type { AgentClient } from './agent-client.ts'

export type KeyRotationOptions = {
  keys: SigningKeys
  issuer: TokenIssuer
  store: Store
  client: AgentClient
  log: Log
  now: () => number
}

/** `kid` signs from now on. Agents that were told refuse the withdrawn keys already; the others hear of it with their next report. */
export type Rotated = { kid: string; withdrawn: string[]; agentsTold: number; agentsNotReached: string[] }

/** How long an agent may take to say that it has the new keys; one that is busy refuses the old ones before it has answered. */
const PUSH_WITHIN_MS = 10_000

/** Changes the keys that sign tokens [C-49]. */
export class KeyRotation {
  readonly #options: KeyRotationOptions

  constructor(options: KeyRotationOptions) {
    this.#options = options
  }

  /** Publishes the next key, which signs once every agent can know it; tokens of the earlier ones stay good. */
  async plan(origin: Origin = systemOrigin(null)): Promise<void> {
    const { keys, store, now } = this.#options
    await keys.rotate()
    await store.audit.append([auditEntry('signing_key.rotate', origin, { ts: now() })])
  }

  /** For a leaked key: all present ones are withdrawn, and every agent that can be reached is told. */
  async replace(origin: Origin = systemOrigin(null)): Promise<Rotated> {
    const { keys, issuer, store, client, log, now } = this.#options
    const agents = await store.agents.list()
    // Signed before the change: agents know no other key yet, and whoever floods them with unknown ones keeps them from asking.
    const tokens = new Map(agents.map((agent) => [agent.id, issuer.control(agent)]))
    const withdrawn = await keys.replace()
    const { jwks } = keys
    const signal = AbortSignal.timeout(PUSH_WITHIN_MS)
    const reached = await Promise.all(
      agents.map((agent) =>
        client.replaceKeys(agent, jwks, tokens.get(agent.id) ?? '', signal).then(
          () => true,
          (err: unknown) => {
            log.warn({ agent_id: agent.id, err }, 'an agent could not be told of the new keys; the answer to its next report tells it')
            return false
          },
        ),
      ),
    )
    log.warn({ kid: issuer.kid, withdrawn }, 'the signing keys were replaced; tokens of the earlier ones are refused')
    const data = { now: true, kid: issuer.kid, withdrawn }
    await store.audit
      .append([auditEntry('signing_key.rotate', origin, { ts: now(), data })])
      .catch((err: unknown) => log.error({ err }, 'the change of the signing keys could not be audited'))
    return {
      kid: issuer.kid,
      withdrawn,
      agentsTold: reached.filter(Boolean).length,
      agentsNotReached: agents.filter((_, i) => !reached[i]).map(({ id }) => id),
    }
  }
}
