import DataLoader from 'dataloader'
import { DatabaseAway } from '../../database-away.ts'

export type GroupOptions<Item> = {
  /** A statement has no two items with the same key: the second one is asked for after the first. */
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
  const askRound = async (items: readonly Item[]): Promise<readonly (Answer | Error)[]> => {
    try {
      return await ask(items)
    } catch (thrown) {
      const error = thrown as Error
      if (items.length === 1 || error instanceof DatabaseAway) return items.map(() => error)
      return (await Promise.all(items.map((item) => askRound([item])))).flat()
    }
  }
  const askAll = async (items: readonly Item[]): Promise<(Answer | Error)[]> => {
    const answers = new Map<Item, Answer | Error>()
    for (const round of roundsOf(items, keyOf))
      for (const [i, answer] of (await askRound(round)).entries()) answers.set(round[i] as Item, answer)
    return items.map((item) => answers.get(item) as Answer | Error)
  }
  const batchScheduleFn = everyMs === undefined ? {} : { batchScheduleFn: paced(everyMs) }
  const loader = new DataLoader(askAll, { cache: false, maxBatchSize: MOST, ...batchScheduleFn })
  return (item) => loader.load(item)
}

/** The items in their order, each key once in a round. */
function roundsOf<Item>(items: readonly Item[], keyOf: (item: Item) => string): Item[][] {
  const rounds: Item[][] = []
  const times = new Map<string, number>()
  for (const item of items) {
    const time = times.get(keyOf(item)) ?? 0
    times.set(keyOf(item), time + 1)
    const round = rounds[time] ?? []
    round.push(item)
    rounds[time] = round
  }
  return rounds
}

function paced(everyMs: number): (send: () => void) => void {
  let nextAt = 0
  return (send) => {
    const now = performance.now()
    setTimeout(send, Math.max(0, nextAt - now))
    nextAt = Math.max(nextAt, now) + everyMs
  }
}
