import type { Profile } from '@boxoffice/protocol'
import type { Logger } from 'pino'
import type { LiveSandbox } from '../live/live-sandbox.ts'
import { createQuietTimer } from './quiet-timer.ts'

export type PoolOptions = {
  create: (profile: Profile) => Promise<LiveSandbox>
  destroy: (sandbox: LiveSandbox) => Promise<void>
  hashOf: (profile: Profile) => string
  concurrency: number
  log: Logger
}

/** Sandboxes made ahead, per profile hash, each with its supervisor linked. */
export interface Pool {
  /** Profiles that want a pool, as the broker last said; the pool follows in the background. */
  setTargets(profiles: readonly Profile[]): void
  /** Takes one out, or undefined when none is ready. No waiting: it is on the path of `ensure`. */
  claim(hash: string): LiveSandbox | undefined
  /** Takes one in that an earlier run of the agent made; the next targets say whether it is wanted. */
  adopt(sandbox: LiveSandbox): void
  forget(sandbox: LiveSandbox): void
  /** Ready ones per profile name, for metrics. */
  sizes(): { profile: string; ready: number; target: number }[]
  close(): Promise<void>
}

type ProfilePool = { profile: Profile; ready: Set<LiveSandbox>; making: number }

const RETRY_AFTER_MS = 5000
const FEW = 3

export const createPool = ({ create, destroy, hashOf, concurrency, log }: PoolOptions): Pool => {
  const pools = new Map<string, ProfilePool>()
  const adopted = new Set<LiveSandbox>()
  const work = new Set<Promise<void>>()
  let retry: NodeJS.Timeout | undefined
  let closed = false

  const making = (): number => [...pools.values()].reduce((sum, pool) => sum + pool.making, 0)

  const refill = (): void => {
    if (closed || retry !== undefined) return
    for (const [hash, pool] of pools) {
      while (pool.ready.size + pool.making < pool.profile.pool_size && making() < concurrency) make(hash, pool)
    }
  }

  const quiet = createQuietTimer(refill)

  const make = (hash: string, pool: ProfilePool): void => {
    pool.making++
    const made = create(pool.profile)
      .then((sandbox) => {
        pool.making--
        if (closed || pools.get(hash) !== pool) return destroy(sandbox)
        pool.ready.add(sandbox)
        return undefined
      })
      .catch((err: unknown) => {
        pool.making--
        if (closed) return
        log.warn({ err, profile: pool.profile.name }, 'the pool could not start a sandbox; it tries again')
        retry ??= setTimeout(() => {
          retry = undefined
          refill()
        }, RETRY_AFTER_MS).unref()
      })
      .finally(() => {
        work.delete(made)
        refill()
      })
    work.add(made)
  }

  const place = (sandbox: LiveSandbox): boolean => {
    const pool = pools.get(sandbox.file.profile_hash)
    if (pool === undefined || sandbox.state !== 'running' || pool.ready.size + pool.making >= pool.profile.pool_size) return false
    pool.ready.add(sandbox)
    return true
  }

  const discard = (sandboxes: Iterable<LiveSandbox>): void => {
    for (const sandbox of sandboxes) {
      const gone = destroy(sandbox)
        .catch((err: unknown) => log.warn({ err, sandbox_id: sandbox.id }, 'a sandbox of the pool could not be removed'))
        .finally(() => work.delete(gone))
      work.add(gone)
    }
  }

  return {
    setTargets(profiles) {
      const wanted = new Map<string, Profile>()
      for (const profile of profiles) {
        const hash = hashOf(profile)
        const other = wanted.get(hash)
        // Profiles that differ in name only share their sandboxes.
        wanted.set(hash, other === undefined ? profile : { ...other, pool_size: other.pool_size + profile.pool_size })
      }
      for (const [hash, pool] of pools) {
        if (wanted.has(hash)) continue
        pools.delete(hash)
        discard(pool.ready)
      }
      for (const [hash, profile] of wanted) {
        const pool = pools.get(hash)
        if (pool === undefined) pools.set(hash, { profile, ready: new Set(), making: 0 })
        else {
          pool.profile = profile
          const surplus = [...pool.ready].slice(profile.pool_size)
          for (const sandbox of surplus) pool.ready.delete(sandbox)
          discard(surplus)
        }
      }
      const unwanted = [...adopted].filter((sandbox) => !place(sandbox))
      adopted.clear()
      discard(unwanted)
      refill()
    },
    claim(hash) {
      const ready = pools.get(hash)?.ready
      if (ready === undefined) return undefined
      for (const sandbox of ready) {
        if (sandbox.state !== 'running' || !sandbox.linked) continue
        ready.delete(sandbox)
        quiet.taken(ready.size < FEW)
        return sandbox
      }
      return undefined
    },
    adopt: (sandbox) => void adopted.add(sandbox),
    forget(sandbox) {
      adopted.delete(sandbox)
      if (pools.get(sandbox.file.profile_hash)?.ready.delete(sandbox)) refill()
    },
    sizes: () => [...pools.values()].map(({ profile, ready }) => ({ profile: profile.name, ready: ready.size, target: profile.pool_size })),
    async close() {
      closed = true
      quiet.cancel()
      clearTimeout(retry)
      await Promise.allSettled([...work])
    },
  }
}
