/** Who is to be told of more events, by session. */
export class Watchers {
  readonly #watchers = new Map<string, Set<() => void>>()

  get isEmpty(): boolean {
    return this.#watchers.size === 0
  }

  has(sessionId: string): boolean {
    return this.#watchers.has(sessionId)
  }

  /** Until the returned function is called; a function that is added twice is called twice. */
  add(sessionId: string, more: () => void): () => void {
    const ofSession = this.#watchers.get(sessionId) ?? new Set()
    const own = () => more()
    this.#watchers.set(sessionId, ofSession.add(own))
    return () => {
      if (ofSession.delete(own) && ofSession.size === 0) this.#watchers.delete(sessionId)
    }
  }

  /** The sessions that are watched. */
  sessions(): string[] {
    return [...this.#watchers.keys()]
  }

  wake(sessionId: string): void {
    for (const more of [...(this.#watchers.get(sessionId) ?? [])]) more()
  }

  wakeAll(): void {
    for (const sessionId of this.sessions()) this.wake(sessionId)
  }
}
