import { setTimeout as delay } from 'node:timers/promises'
import { BoxofficeError } from '@boxoffice/protocol'
import type { SandboxHandle } from '../providers/provider.ts'
import type { SupervisorLink } from '../supervisor/link.ts'

const LOOK_EVERY_MS = 250

/** Waits for the supervisor's first dial, but not for one that has died on the way. */
export const firstDial = async (
  link: SupervisorLink,
  inspect: () => Promise<SandboxHandle | undefined>,
  signal: AbortSignal,
): Promise<void> => {
  const dialled = new AbortController()
  const watch = async (): Promise<never> => {
    for (;;) {
      await delay(LOOK_EVERY_MS, undefined, { signal: dialled.signal })
      const now = await inspect()
      if (now?.state !== 'running') {
        const why = now?.oomKilled ? ' (out of memory)' : ''
        throw new BoxofficeError('BACKEND_UNAVAILABLE', `the sandbox ended before its supervisor could be reached${why}`)
      }
    }
  }
  try {
    await Promise.race([link.whenConnected(signal), watch()])
  } finally {
    dialled.abort()
  }
}

/** Rejects when the signal aborts; for a race. */
export const abortOf = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason)
    else signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
