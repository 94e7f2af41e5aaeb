import { setTimeout as delay } from 'node:timers/promises'
import type { Stack } from '../../e2e/support/stack.ts'

/** From one kill to the next. */
const KILL_EVERY_MS = 2000
/** How long the database is away, and how long it works until it is disturbed again. */
const AWAY_MS = 3000
const WORKS_MS = 5000

export type Disturbed = Record<string, number>

/** How many brokers were killed so far: a busy machine takes a while to end one, and until then it may be given requests. */
export type Kills = { begun: number; ended: number }

/**
 * Kills a broker every two seconds, the one that has run longest and so has most of the clients, and starts it again at once. The last
 * one that runs is spared: of that the load balancer has no other to go to.
 */
export const killBrokers = async (stack: Stack, seconds: number, kills: Kills): Promise<Disturbed> => {
  /** Those that run, the one that has run longest first. */
  const running = stack.brokerUrls.map((_, index) => index)
  const starts: Promise<void>[] = []
  let spared = 0
  const failures: unknown[] = []
  const end = performance.now() + seconds * 1000
  const again = async (index: number): Promise<void> => {
    await stack.broker(index).kill('SIGKILL')
    kills.ended++
    await stack.startBroker(index)
    running.push(index)
  }
  while (performance.now() < end) {
    await delay(KILL_EVERY_MS)
    if (running.length === 1) {
      spared++
      continue
    }
    const [index = 0] = running.splice(0, 1)
    kills.begun++
    starts.push(again(index).catch((thrown: unknown) => void failures.push(thrown)))
  }
  await Promise.all(starts)
  if (failures.length > 0) throw failures[0]
  return { kills: kills.ended, spared }
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
