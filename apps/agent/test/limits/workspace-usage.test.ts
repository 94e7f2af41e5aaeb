import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { workspaceUsage } from '../../src/mounts/workspace-usage.ts'

let directory: string
beforeEach(async () => {
  directory = await mkdtemp(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'bxo-usage-'))
})
afterEach(() => execFileSync('rm', ['-rf', directory]))

test('[0-55, 2-119] a hundred thousand files are counted while the agent goes on', { timeout: 120_000 }, async () => {
  const many = 'chdir shift; for my $d (1..100) { mkdir $d; for (1..1000) { open(my $f, ">", "$d/$_") } }'
  execFileSync('perl', ['-e', many, directory])
  let longest = 0
  let last = performance.now()
  let looks = 0
  const watch = setInterval(() => {
    const now = performance.now()
    longest = Math.max(longest, now - last)
    last = now
    looks++
  }, 5)
  const seen = await workspaceUsage(directory, 200_000)
  clearInterval(watch)
  expect(seen.entries).toBe(100_100)
  // It was somebody else's turn all the while.
  expect(looks).toBeGreaterThan(20)
  expect(longest).toBeLessThan(2000)
})

test('[2-119] the count ends one above what was asked for', async () => {
  for (const name of ['a', 'b', 'c']) await mkdir(join(directory, name))
  expect((await workspaceUsage(directory, 2)).entries).toBe(3)
  expect((await workspaceUsage(directory, 3)).entries).toBe(3)
})

test('[2-119] links are counted, and lead nowhere', async () => {
  await symlink('/usr', join(directory, 'away'))
  expect((await workspaceUsage(directory, 10)).entries).toBe(1)
})

test('[2-119] what is gone takes nothing', async () => {
  await rm(directory, { recursive: true })
  expect(await workspaceUsage(directory, 10)).toEqual({ bytes: 0, entries: 0 })
})

test('[2-119] nothing hides where no path leads', async () => {
  execFileSync('perl', ['-e', 'chdir shift; for (1..60) { mkdir "x" x 200; chdir "x" x 200 } open(my $f, ">", "hidden")', directory])
  expect((await workspaceUsage(directory, 1000)).entries).toBe(1001)
})

test('[2-119] nothing hides under a name that is not UTF-8', async () => {
  execFileSync('perl', ['-e', 'chdir shift; mkdir "\\xff"; chdir "\\xff"; mkdir "\\xe9"; open(my $f, ">", "\\xe9/hidden")', directory])
  expect((await workspaceUsage(directory, 1000)).entries).toBe(3)
})
