import { type SessionSecretsResponse, secretsOfPolicy } from '@boxoffice/protocol'
import { noSession } from '../domain/refusals.ts'
import { egressOf, isLive, type LiveSession } from '../domain/session.ts'
import type { Log } from '../host/log.ts'
import type { SecretKeys } from '../host/secret-keys.ts'
import type { SecretRecord, SecretStore } from '../store/secret-store.ts'
import type { SessionStore } from '../store/session-store.ts'
import { openValue } from './sealed-value.ts'

export type SessionSecretsOptions = {
  sessions: Pick<SessionStore, 'byId'>
  secrets: Pick<SecretStore, 'named'>
  /** What values are sealed under. */
  keys: () => SecretKeys
  log: Log
  now: () => number
}

/** The values of secrets, for the agent that has a session and for nobody else. */
export class SessionSecrets {
  readonly #options: SessionSecretsOptions

  constructor(options: SessionSecretsOptions) {
    this.#options = options
  }

  /**
   * The values of these names that the session may have. 404 `BINDING_NOT_FOUND` for a session that is not on the agent, or has ended.
   * What does not open is left out and logged by its name.
   */
  async handOut(agentId: string, sessionId: string, names: readonly string[]): Promise<SessionSecretsResponse> {
    const { sessions, secrets, now } = this.#options
    const session = await sessions.byId(sessionId)
    if (session === undefined || !isLive(session) || session.agentId !== agentId || now() >= session.hardExpiresAt) throw noSession()
    const allowed = secretsOf(session)
    const wanted = [...new Set(names)].filter((name) => allowed.has(name))
    const found = wanted.length === 0 ? [] : await secrets.named(session.tenant, wanted)
    return { secrets: Object.fromEntries(found.flatMap((secret) => this.#opened(secret))) }
  }

  #opened(secret: SecretRecord): [string, { value: string; version: number }][] {
    const { keys, log } = this.#options
    const { tenant, name, version, kekId } = secret
    try {
      return [[name, { value: openValue(keys(), secret), version }]]
    } catch (err) {
      log.error({ err, tenant, secret: name, kek_id: kekId }, 'a secret does not open')
      return []
    }
  }
}

/** The names that the policy of a session uses. */
function secretsOf(session: LiveSession): ReadonlySet<string> {
  const egress = egressOf(session)
  return egress === null ? new Set() : secretsOfPolicy(egress)
}
