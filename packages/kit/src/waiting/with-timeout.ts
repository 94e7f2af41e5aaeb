import { deferred } from './deferred.ts'

/**
 * What `work` gives, or throws; after `ms` milliseconds (at most 2³¹ − 1) what `late` gives, or throws. The work itself goes on then,
 * and how it ends is nobody's concern. No timer is left.
 */
export async function withTimeout<T, L>(work: PromiseLike<T>, ms: number, late: () => L): Promise<T | Awaited<L>> {
  const { promise, resolve } = deferred<typeof LATE>()
  const timer = setTimeout(resolve, ms, LATE)
  try {
    const first = await Promise.race([work, promise])
    return first === LATE ? await late() : first
  } finally {
    clearTimeout(timer)
  }
}

const LATE = Symbol('late')
