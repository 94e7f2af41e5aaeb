import { KeyedQueue } from '@boxoffice/kit/keyed-queue'
import DataLoader from 'dataloader'
import { DatabaseAway } from '../../database-away.ts'

export type GroupOptions<Item> = {
  /** A group has no two items with the same key: who has many of one waits for each of them, and nobody else does. */
  keyOf: (item: Item) => string
  /**
   * Milliseconds from one group to the next. An item that comes later than that after the last group waits for nothing. Without it, a
   * group is what comes in one turn of the event loop.
   */
  everyMs?: number
}

/** Of more items the parameter of the statement becomes large. */
const MOST = 500

/**
 * Asks the database for many items with one statement: the round trip costs the broker more than the item. `ask` gives the answers in the
 * order of its items. Where it throws, each item is asked for by itself, so that none fails by another one; not while the database is away.
 */
export function grouped<Item, Answer>(
  ask: (items: readonly Item[]) => Promise<readonly Answer[]>,
  { keyOf, everyMs }: GroupOptions<Item>,
): (item: Item) => Promise<Answer> {
  const askAll = async (items: readonly Item[]): Promise<readonly (Answer | Error)[]> => {
    try {
      return await ask(items)
    } catch (thrown) {
      const error = thrown as Error
      if (items.length === 1 || error instanceof DatabaseAway) return items.map(() => error)
      return (await Promise.all(items.map((item) => askAll([item])))).flat()
    }
  }
  const batchScheduleFn = everyMs === undefined ? {} : { batchScheduleFn: paced(everyMs) }
  const loader = new DataLoader(askAll, { cache: false, maxBatchSize: MOST, ...batchScheduleFn })
  const queues = new KeyedQueue()
  return (item) => queues.run(keyOf(item), () => loader.load(item))
}

function paced(everyMs: number): (send: () => void) => void {
  let nextAt = 0
  return (send) => {
    const now = performance.now()
    setTimeout(send, Math.max(0, nextAt - now))
    nextAt = Math.max(nextAt, now) + everyMs
  }
}
