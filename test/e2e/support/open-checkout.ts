import { execFileSync } from 'node:child_process'
import { chmodSync, copyFileSync, mkdtempSync, rmdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
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

/** A directory with copies of these files of the checkout, which everybody may read. */
export const openCopies = (...files: string[]): Open => {
  const path = mkdtempSync(join(tmpdir(), 'bxo-copies-'))
  chmodSync(path, 0o755)
  for (const file of files) copyFileSync(ROOT + file, join(path, basename(file)))
  return { path, close: () => rmSync(path, { recursive: true }) }
}
