import { setTimeout as delay } from 'node:timers/promises'
import type { Stack } from '../../e2e/support/stack.ts'

/** From one kill to the next. */
const KILL_EVERY_MS = 2000
/** How long the database is away, and how long it works until it is disturbed again. */
const AWAY_MS = 3000
const WORKS_MS = 5000

export type Disturbed = Record<string, number>

/**
 * Kills a broker every two seconds, each in its turn, and starts it again at once. One that has not started again yet is left out, and
 * the last one that runs is spared: of that the load balancer has no other to go to.
 */
export const killBrokers = async (stack: Stack, seconds: number): Promise<Disturbed> => {
  const count = stack.brokerUrls.length
  const starting = new Map<number, Promise<void>>()
  const disturbed = { kills: 0, spared: 0 }
  const failures: unknown[] = []
  const end = performance.now() + seconds * 1000
  for (let turn = 0; performance.now() < end; turn++) {
    await delay(KILL_EVERY_MS)
    const index = turn % count
    if (starting.has(index) || starting.size >= count - 1) {
      disturbed.spared++
      continue
    }
    disturbed.kills++
    const again = async (): Promise<void> => {
      await stack.broker(index).kill('SIGKILL')
      await stack.startBroker(index)
    }
    starting.set(
      index,
      again()
        .catch((thrown: unknown) => void failures.push(thrown))
        .finally(() => starting.delete(index)),
    )
  }
  await Promise.all(starting.values())
  if (failures.length > 0) throw failures[0]
  return disturbed
}

/** Cuts the connections of the database and restarts it, in turn. */
export const disturbDatabase = async ({ postgres }: Stack, seconds: number): Promise<Disturbed> => {
  if (postgres === undefined) throw new Error('the stack has no PostgreSQL')
  const disturbed = { cuts: 0, restarts: 0 }
  const end = performance.now() + seconds * 1000
  while (performance.now() < end) {
    await postgres.cut()
    disturbed.cuts++
    await delay(WORKS_MS)
    await postgres.stop()
    await delay(AWAY_MS)
    await postgres.start()
    disturbed.restarts++
    await delay(WORKS_MS)
  }
  return disturbed
}
