import { lstat, opendir } from 'node:fs/promises'
import { join } from 'node:path'
import type { WorkspaceUsage } from '@boxoffice/protocol'

/** How many sizes are asked for at once: enough to be quick, few enough to leave the thread pool to others. */
const AT_ONCE = 4
/** One character for each byte of a path: a name that is not UTF-8 is found again only by its bytes. */
const PATH_ENCODING = 'latin1'

/**
 * What a workspace has on the disk, as far as it can be seen while it is in use. Links are counted, not followed, and nothing
 * blocks: each step waits for the disk [0-55]. What lies too deep to be looked at counts as too many entries, so that nothing hides there.
 */
export const workspaceUsage = async (directory: string, maxEntries: number): Promise<WorkspaceUsage> => {
  const usage = { bytes: 0, entries: 0 }
  const waiting = [Buffer.from(directory).toString(PATH_ENCODING)]
  const count = async (path: string): Promise<void> => {
    // Blocks, not lengths: a sparse file takes no room. What is gone meanwhile takes none either.
    const { blocks } = await lstat(Buffer.from(path, PATH_ENCODING)).catch(() => ({ blocks: 0 }))
    usage.bytes += blocks * 512
  }
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const opening = opendir(Buffer.from(next, PATH_ENCODING), { encoding: PATH_ENCODING })
    const entries = await opening.catch(({ code }: NodeJS.ErrnoException) => (code === 'ENAMETOOLONG' ? 'too deep' : undefined))
    if (entries === undefined) continue
    if (entries === 'too deep') return { ...usage, entries: maxEntries + 1 }
    let batch: Promise<void>[] = []
    for await (const entry of entries) {
      if (++usage.entries > maxEntries) return usage
      const path = join(next, entry.name)
      if (entry.isDirectory()) waiting.push(path)
      batch.push(count(path))
      if (batch.length < AT_ONCE) continue
      await Promise.all(batch)
      batch = []
    }
    await Promise.all(batch)
  }
  return usage
}
