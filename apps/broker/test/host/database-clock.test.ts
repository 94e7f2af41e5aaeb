import { Writable } from 'node:stream'
import { pino } from 'pino'
import { expect, test } from 'vitest'
import { DatabaseClock } from '../../src/host/database-clock.ts'

/** A machine and a database with clocks of their own, and a way of `tripMs` between them. */
const world = () => {
  const state = { local: 1_000_000, ahead: 0, tripMs: 0, mono: 0, asked: 0, away: false }
  const warned: { drift_ms: number }[] = []
  const stream = new Writable({
    write(chunk, _encoding, done) {
      warned.push(JSON.parse(String(chunk)))
      done()
    },
  })
  const pass = (ms: number): void => {
    state.local += ms
    state.mono += ms
  }
  const database = {
    async now() {
      state.asked++
      if (state.away) throw new Error('the database is away')
      pass(state.tripMs / 2)
      const there = state.local + state.ahead
      pass(state.tripMs / 2)
      return there
    },
  }
  const start = (intervalMs = 3_600_000) =>
    DatabaseClock.start({ database, log: pino(stream), local: () => state.local, monotonic: () => state.mono, intervalMs })
  return { state, warned, start }
}

test('[C-77] a broker goes by the clock of its database, however long the way to it is', async () => {
  const { state, warned, start } = world()
  Object.assign(state, { ahead: -4000, tripMs: 300 })
  using clock = await start()
  expect(clock.now()).toBe(state.local - 4000)
  expect(warned.map(({ drift_ms }) => drift_ms)).toEqual([-4000])
})

test('a distance that the way alone could explain is none', async () => {
  const { state, warned, start } = world()
  Object.assign(state, { ahead: 90, tripMs: 200 })
  using clock = await start()
  expect(clock.now()).toBe(state.local)
  expect(warned).toEqual([])
})

test('it is measured again and again; a drift is told once, and once more when it has grown', async () => {
  const { state, warned, start } = world()
  Object.assign(state, { ahead: 2000 })
  using clock = await start(5)
  const measured = async () => {
    const { asked } = state
    await expect.poll(() => state.asked, { timeout: 60_000 }).toBeGreaterThan(asked + 10)
  }
  await measured()
  expect(warned.map(({ drift_ms }) => drift_ms)).toEqual([2000])
  state.ahead = 5000
  await measured()
  expect(warned.map(({ drift_ms }) => drift_ms)).toEqual([2000, 5000])
  expect(clock.now()).toBe(state.local + 5000)
})

test('a database that is away leaves what was measured last', async () => {
  const { state, start } = world()
  state.ahead = 7000
  using clock = await start(5)
  state.away = true
  const { asked } = state
  await expect.poll(() => state.asked, { timeout: 60_000 }).toBeGreaterThan(asked)
  expect(clock.now()).toBe(state.local + 7000)
})

test("[C-77] a jump of the machine's clock changes nothing, and is measured at once", async () => {
  const { state, warned, start } = world()
  Object.assign(state, { ahead: 300, tripMs: 2 })
  using clock = await start()
  const before = clock.now()
  const asked = state.asked
  // The database's clock goes on as it was.
  Object.assign(state, { local: state.local - 3_600_000, ahead: state.ahead + 3_600_000 })
  expect(clock.now()).toBe(before)
  await expect.poll(() => state.asked, { timeout: 60_000 }).toBeGreaterThan(asked + 4)
  await expect.poll(() => warned.map(({ drift_ms }) => drift_ms), { timeout: 60_000 }).toEqual([3_600_300])
  expect(clock.now() - (state.local + state.ahead)).toBe(0)
})

test('a machine that was suspended has a monotonic clock that stood still: the next look at the time measures anew', async () => {
  const { state, start } = world()
  Object.assign(state, { tripMs: 2 })
  using clock = await start()
  const stood = clock.now()
  state.local += 7_200_000
  expect(clock.now()).toBe(stood)
  // The way to the database takes time of this machine.
  await expect.poll(() => clock.now() - state.local, { timeout: 60_000 }).toBe(0)
})
