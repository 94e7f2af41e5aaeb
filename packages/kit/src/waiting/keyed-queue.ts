import { SerialQueue } from './serial-queue.ts'

/**
 * Work of one key one at a time, in the order in which it came; different keys do not wait for each other. A key takes no memory
 * once its work is done.
 */
export class KeyedQueue<K = string> {
  readonly #queues = new Map<K, { queue: SerialQueue; unfinished: number }>()

  /** Gives what the work gives, or throws it, once all work of that key before it has ended. */
  async run<T>(key: K, work: () => T | PromiseLike<T>): Promise<T> {
    const entry = this.#queues.get(key) ?? { queue: new SerialQueue(), unfinished: 0 }
    this.#queues.set(key, entry)
    entry.unfinished++
    try {
      return await entry.queue.run(work)
    } finally {
      if (--entry.unfinished === 0) this.#queues.delete(key)
    }
  }

  /** How much work of a key has not ended. */
  unfinished(key: K): number {
    return this.#queues.get(key)?.unfinished ?? 0
  }

  /** Keys with work that has not ended. */
  get size(): number {
    return this.#queues.size
  }
}
