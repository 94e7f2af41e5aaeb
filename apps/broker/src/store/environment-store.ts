export type Environment = Readonly<Record<string, string>>

/** Environment variables of whole sandboxes, by session. They end with it. */
export interface EnvironmentStore {
  /** Replaces what is there; nothing is kept for a session that has ended. */
  put(sessionId: string, variables: Environment): Promise<void>
  of(sessionId: string): Promise<Environment | undefined>
}
