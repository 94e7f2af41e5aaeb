import type { End } from './end.ts'

/** Tells the listeners of one sandbox how it has ended, each once; whoever comes later hears of the same end, soon. */
export class EndSignal {
  readonly #listeners = new Set<(end: End) => void>()
  #end: End | undefined

  /** Returns an unsubscribe function. */
  listen(listener: (end: End) => void): () => void {
    this.#listeners.add(listener)
    const end = this.#end
    if (end !== undefined) queueMicrotask(() => this.tell(end))
    return () => this.#listeners.delete(listener)
  }

  /** Only the first end is remembered. */
  tell(end: End): void {
    this.#end ??= end
    const listeners = [...this.#listeners]
    this.#listeners.clear()
    for (const listener of listeners) listener(end)
  }
}
