/** A token bucket per key. Bounded: when there are too many keys, full buckets are forgotten, and then all. */
export const createRateLimit = (
  { perSecond, burst }: { perSecond: number; burst: number },
  now: () => number = () => performance.now(),
) => {
  const buckets = new Map<string, { tokens: number; at: number }>()
  const makeRoom = (at: number): void => {
    for (const [key, bucket] of buckets) if (at - bucket.at >= (burst / perSecond) * 1000) buckets.delete(key)
    if (buckets.size >= MAX_KEYS) buckets.clear()
  }
  /** False when the key has used up its share. */
  return (key: string): boolean => {
    const at = now()
    const bucket = buckets.get(key)
    const tokens = bucket === undefined ? burst : Math.min(burst, bucket.tokens + ((at - bucket.at) / 1000) * perSecond)
    if (tokens < 1) return false
    if (bucket === undefined && buckets.size >= MAX_KEYS) makeRoom(at)
    buckets.set(key, { tokens: tokens - 1, at })
    return true
  }
}

const MAX_KEYS = 10_000
