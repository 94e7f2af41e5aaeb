import { describe, expect, test } from 'vitest'
import { createCapacity } from '../../src/capacity/capacity.ts'
import { type Machine, openMachine } from '../../src/capacity/machine.ts'
import { describeRoom, roomIn } from '../../src/capacity/room.ts'

const GiB = 1024 ** 3
const idle: Machine = {
  descriptors: { used: 100, limit: 20_000 },
  pids: { used: 200, limit: 32_768 },
  memory: { used: 4 * GiB, limit: 24 * GiB },
}
const admitTo = (machine: Machine) => createCapacity({ machine: () => machine, disk: { shortage: () => undefined }, reserve: {} })

describe('[C-45] room for another sandbox', () => {
  test.each([
    ['descriptors', { used: 17_500, limit: 20_000 }, /17500 of 20000 file descriptors/],
    ['pids', { used: 32_000, limit: 32_768 }, /32000 of 32768 process ids/],
    ['memory', { used: 23.9 * GiB, limit: 24 * GiB }, /102 MiB of 24576 MiB of memory/],
  ] as const)('ends before %s do, and the refusal names them', (limit, reading, why) => {
    using _room = admitTo(idle).admit()
    expect(() => admitTo({ ...idle, [limit]: reading }).admit()).toThrow(
      expect.objectContaining({
        code: 'AGENT_FULL',
        status: 503,
        closeCode: 4503,
        retryable: true,
        details: { limit },
        message: expect.stringMatching(why),
      }),
    )
  })

  test('is kept for each that starts, until the machine’s own figures count it', () => {
    const capacity = admitTo({ ...idle, descriptors: { used: 17_500 - 2, limit: 20_000 } })
    const first = capacity.admit()
    using _second = capacity.admit()
    expect(() => capacity.admit()).toThrow(expect.objectContaining({ code: 'AGENT_FULL' }))
    first[Symbol.dispose]()
    first[Symbol.dispose]()
    using _third = capacity.admit()
    expect(() => capacity.admit()).toThrow(expect.objectContaining({ code: 'AGENT_FULL' }))
  })

  test('ends when the disk is low', () => {
    const capacity = createCapacity({ machine: () => idle, disk: { shortage: () => '1 MiB of the disk are free' }, reserve: {} })
    expect(() => capacity.admit()).toThrow(
      expect.objectContaining({ code: 'AGENT_FULL', details: { limit: 'disk' }, message: expect.stringContaining('1 MiB of the disk') }),
    )
  })

  test('is what the operator leaves of it', () => {
    const { count } = roomIn(idle)
    expect(roomIn(idle, { pids: 32_768 - 200 - 30 })).toMatchObject({ count: 10, limit: 'pids' })
    expect(roomIn(idle, { pids: 0 }).count).toBeGreaterThanOrEqual(count)
  })

  test('is told in words', () => {
    expect(describeRoom(idle)).toEqual({
      count: 10514,
      message: 'room for about 10514 more sandboxes, then pids end: 200 of 32768 process ids are taken (kernel.pid_max, pids.max)',
    })
  })

  test('is known of this machine', () => {
    const { descriptors, pids, memory } = openMachine()()
    for (const { used, limit } of [descriptors, pids, memory]) {
      expect(used).toBeGreaterThan(0)
      expect(limit).toBeGreaterThan(used)
    }
  })

  test('ends at as many sandboxes as the agent may have', () => {
    let count = 2
    const sandboxes = { most: 3, count: () => count }
    const capacity = createCapacity({ machine: () => idle, disk: { shortage: () => undefined }, reserve: {}, sandboxes })
    expect(capacity.room()).toEqual({ count: 1, limit: 'sandboxes' })
    {
      using starting = capacity.admit()
      expect(() => capacity.admit()).toThrow(expect.objectContaining({ code: 'AGENT_FULL' }))
      count = 3
      starting.recorded()
      expect(capacity.room().count).toBe(0)
      count = 2
      expect(capacity.room().count).toBe(1)
      using _another = capacity.admit()
      expect(() => capacity.admit()).toThrow(expect.objectContaining({ code: 'AGENT_FULL', details: { limit: 'sandboxes' } }))
    }
    count = 3
    expect(capacity.room()).toEqual({ count: 0, limit: 'sandboxes' })
    expect(() => capacity.admit()).toThrow(/it has 3, its max_sandboxes/)
  })

  test('is told with what ends it first; what is starting is taken off', () => {
    const capacity = admitTo({ ...idle, descriptors: { used: 17_500 - 2, limit: 20_000 } })
    expect(capacity.room()).toEqual({ count: 2, limit: 'descriptors' })
    using _first = capacity.admit()
    expect(capacity.room()).toEqual({ count: 1, limit: 'descriptors' })
    expect(capacity.total).toEqual({ memory: 24 * GiB, processors: expect.any(Number) })
    const full = createCapacity({ machine: () => idle, disk: { shortage: () => 'no bytes' }, reserve: {} })
    expect(full.room()).toEqual({ count: 0, limit: 'disk' })
  })
})
