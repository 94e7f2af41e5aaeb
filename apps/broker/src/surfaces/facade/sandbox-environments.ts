import { EnvironmentVariables } from '@boxoffice/protocol'
import type { Environment, EnvironmentStore } from '../../store/environment-store.ts'

const MAX_CHARACTERS = 64 * 1024

/** The environment variables of a whole sandbox, as a request names them. */
export const SandboxEnvironment = EnvironmentVariables.refine(
  (variables) => JSON.stringify(variables).length <= MAX_CHARACTERS,
  `must be at most ${MAX_CHARACTERS} characters of JSON`,
)

/**
 * Environment variables that a facade's client names once, for each command that it runs in the sandbox. The dataplane has none but a
 * command's own, so the facade gives them with each. They are kept until the session ends, and are in no view, log or audit entry.
 */
export class SandboxEnvironments {
  readonly #store: EnvironmentStore

  constructor(store: EnvironmentStore) {
    this.#store = store
  }

  /** Keeps them for the life of the session; without any, what is there stays. */
  async keep(sessionId: string, variables: Environment | null | undefined): Promise<void> {
    if (variables != null && Object.keys(variables).length > 0) await this.#store.put(sessionId, variables)
  }

  /** What a command of the session gets: its own variables win. */
  async withOwn(sessionId: string, own: Environment | null | undefined): Promise<Record<string, string>> {
    return { ...(await this.#store.of(sessionId)), ...own }
  }
}
