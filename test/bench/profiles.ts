import { POOL_SIZE } from './pool.ts'

/** Frozen after a second without use. */
export const SLEEPY = { name: 'sleepy', idle_timeout_seconds: 1, memory_mb: 512 }
export const POOLED = { name: 'pooled', pool_size: POOL_SIZE, memory_mb: 500 }
/** Not suspended and not ended in a row's time. */
export const LASTING = {
  ...{ name: 'lasting', idle_timeout_seconds: 86_400, stop_after_seconds: 86_400, lease_seconds: 86_400, hard_ttl_seconds: 86_400 },
}
/** Takes uploads of a GiB. */
export const BULK = { name: 'bulk', memory_mb: 4096, max_upload_bytes: 2 * 1024 ** 3 }
