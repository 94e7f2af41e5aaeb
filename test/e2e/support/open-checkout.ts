import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, rmdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { afterAll, beforeAll } from 'vitest'
import { ROOT } from './program.ts'

/** Somewhere that an unprivileged user may read; `path` has no slash at its end. */
export type Open = { path: string; close(): void }

/**
 * The checkout for users to whom the directories above it may be closed, as those of local sandboxes: as root a second, read-only
 * view of it, else itself.
 */
export const openCheckout = (): Open => {
  const checkout = ROOT.replace(/\/$/, '')
  if (process.getuid?.() !== 0) return { path: checkout, close: () => {} }
  const path = mkdtempSync(join(tmpdir(), 'bxo-checkout-'))
  execFileSync('mount', ['--bind', checkout, path])
  execFileSync('mount', ['-o', 'remount,bind,ro', path])
  return {
    path,
    close: () => {
      execFileSync('umount', ['--lazy', path])
      rmdirSync(path)
    },
  }
}

/** The path of a directory with copies of these files of the checkout, which everybody may read, while the tests of a file run. */
export const openCopies = (...files: string[]): string => {
  // Not made yet: a file whose tests are only listed has no end at which it could be removed.
  const path = join(tmpdir(), `bxo-copies-${randomUUID()}`)
  beforeAll(() => {
    mkdirSync(path)
    chmodSync(path, 0o755)
    for (const file of files) copyFileSync(ROOT + file, join(path, basename(file)))
  })
  afterAll(() => rmSync(path, { recursive: true, force: true }))
  return path
}
