import { readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { SerialQueue } from '@boxoffice/kit/serial-queue'
import { Revocations } from '@boxoffice/protocol'
import type { Logger } from 'pino'
import type { RevocationStore } from '../auth/revocations.ts'

const NAME = 'revocations.json'

/**
 * Keeps the deny-list over restarts, as the keys are kept: without it, an agent that comes back while its broker is away would
 * take tokens that it had been told to refuse. Returns what stops it, which waits for the last write.
 */
export const keepRevocations = async (directory: string, store: RevocationStore, log: Logger): Promise<() => Promise<void>> => {
  const path = join(directory, NAME)
  try {
    store.apply(Revocations.parse(JSON.parse(await readFile(path, 'utf8'))))
  } catch (err) {
    // None yet, or not readable: the registration brings it.
    if ((err as NodeJS.ErrnoException).code !== 'ENOENT')
      log.warn({ err }, 'the kept deny-list is not readable; the broker is asked for it')
  }

  const writes = new SerialQueue()
  let waiting = false
  const write = async (): Promise<void> => {
    waiting = false
    await writeFile(`${path}.new`, JSON.stringify(store.snapshot()), { mode: 0o600 })
    await rename(`${path}.new`, path)
  }
  const off = store.onChange(() => {
    if (waiting) return
    waiting = true
    writes.run(write).catch((err: unknown) => log.warn({ err }, 'the deny-list could not be kept'))
  })
  return async () => {
    off()
    await writes.idle()
  }
}
