/** No timer of a command is kept longer than a day. */
export const MAX_TIMER_SECONDS = 86_400
const MAX_PER_SESSION = 256

/**
 * One timer for a command of a session. Nothing tells when a command without a client has ended by itself, so that its timer stays until
 * its time: a session has at most 256, and the oldest is forgotten for one more.
 */
export class SessionTimers {
  readonly #timers = new Map<string, Map<string, NodeJS.Timeout>>()

  /** Replaces the one that the command has. */
  set(sessionId: string, commandId: string, seconds: number, act: () => void): void {
    this.clear(sessionId, commandId)
    const ofSession = this.#timers.get(sessionId) ?? new Map<string, NodeJS.Timeout>()
    this.#timers.set(sessionId, ofSession)
    const [oldest] = ofSession.keys()
    if (oldest !== undefined && ofSession.size >= MAX_PER_SESSION) {
      clearTimeout(ofSession.get(oldest))
      ofSession.delete(oldest)
    }
    const onTime = (): void => {
      this.clear(sessionId, commandId)
      act()
    }
    ofSession.set(commandId, setTimeout(onTime, Math.min(seconds, MAX_TIMER_SECONDS) * 1000).unref())
  }

  clear(sessionId: string, commandId: string): void {
    const ofSession = this.#timers.get(sessionId)
    if (ofSession === undefined) return
    clearTimeout(ofSession.get(commandId))
    ofSession.delete(commandId)
    if (ofSession.size === 0) this.#timers.delete(sessionId)
  }

  close(): void {
    for (const ofSession of this.#timers.values()) for (const timer of ofSession.values()) clearTimeout(timer)
    this.#timers.clear()
  }
}
