import { closeSync, mkdtempSync, openSync, rmSync, statSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { MiB } from '../../src/host/space.ts'
import { explains, type Growth, growthOf, leastOf, takersOf, useOf } from '../../src/limits/growth.ts'

const least = { bytes: MiB, inodes: 256 }
const short = { bytes: true, inodes: false }
const none: Growth = { bytes: 0, inodes: 0, uncounted: false }
const of = (mib: number): Growth => ({ ...none, bytes: mib * MiB })
const lost = (mib: number, inodes = 0) => ({ bytes: mib * MiB, inodes })

describe('who is held for what was lost', () => {
  test.each<[string, number, Record<string, Growth>, string[]]>([
    ['who took a quarter, the greatest first', 100, { a: of(30), b: of(60), c: of(10) }, ['b', 'a']],
    ['nobody for less than 1 MiB', 2, { a: of(0.9), b: of(0.9) }, []],
    ['the greatest alone where the loss is that of many', 16, { a: of(3), b: of(3.5), c: of(3), d: of(3), e: of(3) }, ['b']],
    ['nobody where the host takes it', 1000, { a: of(2), b: of(1) }, []],
    ['whose workspace cannot be counted, where it is nobody else', 1000, { a: of(2), b: { ...none, uncounted: true } }, ['b']],
    ['nobody for inodes that are not short', 0, { a: { ...none, inodes: 1000 } }, []],
  ])('%s', (_what, mib, growths, expected) => {
    expect(takersOf({ lost: lost(mib, 1000), least, short }, new Map(Object.entries(growths)))).toEqual(expected)
  })

  test('inodes as bytes', () => {
    const growths = new Map([
      ['a', { ...none, inodes: 300 }],
      ['b', of(100)],
    ])
    expect(takersOf({ lost: lost(100, 400), least, short: { bytes: false, inodes: true } }, growths)).toEqual(['a'])
  })
})

test('a loss is explained where half of it was counted, and what is too little needs no explanation', () => {
  expect(explains(lost(10), least, new Map([['a', of(5)]]))).toBe(true)
  expect(explains(lost(10), least, new Map([['a', of(4)]]))).toBe(false)
  expect(explains(lost(10, 255), least, new Map([['a', of(5)]]))).toBe(true)
  expect(explains(lost(10, 256), least, new Map([['a', of(5)]]))).toBe(false)
})

test('a growth is what was written or what the workspace has more, whichever is more, and never less than nothing', () => {
  const before = { written: 5, kept: { bytes: 100, inodes: 10 } }
  expect(growthOf(before, { written: 9, kept: { bytes: 90, inodes: 5 } })).toEqual({ bytes: 4, inodes: 0, uncounted: false })
  expect(growthOf(before, { written: 5, kept: { bytes: 150, inodes: 12 } })).toEqual({ bytes: 50, inodes: 2, uncounted: false })
  expect(growthOf({ written: 5, kept: undefined }, { written: 6, kept: { bytes: 150, inodes: 100_001 } })).toEqual({
    ...{ bytes: 1, inodes: 0, uncounted: true },
  })
})

test('what counts is less on a small file system', () => {
  const space = { bytes: 0, inodes: 0 }
  expect(leastOf({ ...space, floor: { bytes: 256 * MiB, inodes: 65_536 } })).toEqual(least)
  expect(leastOf({ ...space, floor: { bytes: 4 * MiB, inodes: 200 } })).toEqual({ bytes: MiB / 2, inodes: 25 })
})

test('a file that is deleted and open counts until it is closed', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'bxo-growth-'))
  try {
    const kept = async () =>
      (await useOf({ supervisor: process.pid, others: [process.pid] }, statSync(directory).dev, [directory])).kept?.bytes ?? 0
    const path = join(directory, 'file')
    const file = openSync(path, 'w')
    const before = await kept()
    writeSync(file, Buffer.alloc(4 * MiB, 'x'))
    rmSync(path)
    const grown = (await kept()) - before
    closeSync(file)
    expect(grown).toBeGreaterThanOrEqual(4 * MiB)
    expect((await kept()) - before).toBeLessThan(4 * MiB)
  } finally {
    rmSync(directory, { recursive: true })
  }
})
