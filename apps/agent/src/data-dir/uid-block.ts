import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { chmod, mkdir, readFile, readlink, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'

/** How many installs of agents one host has room for. */
export const UID_BLOCKS = 2_000
const REGISTRY = '/run/boxoffice/uid-blocks'
const NOTE = 'uid-block'
/** An abstract socket: the kernel frees its name with the process, so no lock is left behind. */
const LOCK = '\0boxoffice-uid-blocks'
const LOCK_WITHIN_MS = 5_000

/**
 * The block of user ids of a root agent, 0 to UID_BLOCKS - 1. No other agent of the host has it: two sandboxes with one uid could signal each
 * other's processes where they share a process namespace, and would share the limit of processes.
 *
 * The block is noted in the data directory, so it stays for as long as that does; `/run` says which data directory has which block. A first
 * start takes the block that the install id hashes to, or the next free one. Where `/run` cannot be written, the hash decides alone.
 */
export const claimUidBlock = async (dataDirectory: string, installId: string, registry = REGISTRY): Promise<number> => {
  const wanted = (await notedIn(dataDirectory)) ?? createHash('sha256').update(installId).digest().readUInt32LE(0) % UID_BLOCKS
  if (process.getuid?.() !== 0 || !(await openRegistry(registry))) return wanted
  await using _ = await lock()
  for (let tried = 0; tried < UID_BLOCKS; tried++) {
    const block = (wanted + tried) % UID_BLOCKS
    const entry = join(registry, String(block))
    const owner = await readlink(entry).catch(() => undefined)
    if (owner !== undefined && owner !== dataDirectory && (await notedIn(owner)) === block) continue
    await writeFile(join(dataDirectory, NOTE), String(block), { mode: 0o600 })
    await rm(entry, { force: true })
    await symlink(dataDirectory, entry)
    return block
  }
  return wanted
}

/** Undefined where there is no data directory, or one of before. */
const notedIn = async (dataDirectory: string): Promise<number | undefined> => {
  const text = await readFile(join(dataDirectory, NOTE), 'utf8').catch(() => '')
  return /^\d{1,4}$/.test(text) && Number(text) < UID_BLOCKS ? Number(text) : undefined
}

const openRegistry = async (registry: string): Promise<boolean> => {
  try {
    await mkdir(registry, { recursive: true, mode: 0o700 })
    // Others walk through it to mounts of data directories.
    await chmod(dirname(registry), 0o711)
    return true
  } catch {
    return false
  }
}

/** One agent of the host looks for its block at a time. Goes on without the lock where somebody keeps it for long. */
const lock = async (): Promise<AsyncDisposable> => {
  const server = createServer((socket) => socket.destroy())
  const deadline = performance.now() + LOCK_WITHIN_MS
  while (performance.now() < deadline) {
    server.listen(LOCK)
    const taken = await once(server, 'listening').then(
      () => true,
      () => false,
    )
    if (taken) break
    await delay(5)
  }
  return { [Symbol.asyncDispose]: async () => void server.close() }
}
