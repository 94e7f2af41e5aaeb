import { LRUCache } from 'lru-cache'

// biome-ignore lint/complexity/noBannedTypes: whatever is neither null nor undefined, as lru-cache wants it.
type Some = {}

/**
 * A map of at most `max` entries: one more takes the place of the entry that was read or written the longest ago. It takes memory
 * for the entries that it has, not for `max` of them. How long an entry is true is the business of whoever keeps it.
 */
export class BoundedCache<K extends Some, V extends Some> extends LRUCache<K, V> {
  /** `evicted` gets what had to make room, or was deleted or replaced, so that it can be closed. */
  constructor(max: number, evicted?: (value: V, key: K) => void) {
    super({ maxSize: max, sizeCalculation: () => 1, ...(evicted === undefined ? {} : { dispose: evicted }) })
  }

  /** What is kept by that key; else what `make` gives, which is kept from now on. */
  getOrMake(key: K, make: (key: K) => V): V {
    const known = this.get(key)
    if (known !== undefined) return known
    const made = make(key)
    this.set(key, made)
    return made
  }
}
