import { BoxofficeError } from '@boxoffice/protocol'
import type { SandboxHandle } from '../../sandbox/provider.ts'
import type { SupervisorLink } from '../../supervisor/link.ts'

const LOOK_EVERY_MS = 250

/** Waits for the supervisor's first dial, but not for one that has died on the way. */
export const firstDial = async (
  link: SupervisorLink,
  inspect: () => Promise<SandboxHandle | undefined>,
  signal: AbortSignal,
): Promise<void> => {
  let timer: NodeJS.Timeout | undefined
  let over = false
  const look = async (): Promise<void> => {
    const now = await inspect()
    if (now?.startError !== undefined) throw now.startError
    if (now?.state !== 'running' && now?.state !== 'starting') {
      const why = now?.oomKilled ? ' (out of memory)' : ''
      throw new BoxofficeError('BACKEND_UNAVAILABLE', `the sandbox ended before its supervisor could be reached${why}`)
    }
  }
  // A timer and no abort signal: making the error of an abort that nobody sees takes longer than all the rest here.
  const died = new Promise<never>((_, reject) => {
    const lookLater = (): void => {
      if (!over) timer = setTimeout(() => void look().then(lookLater, reject), LOOK_EVERY_MS)
    }
    lookLater()
  })
  try {
    await Promise.race([link.whenConnected(signal), died])
  } finally {
    over = true
    clearTimeout(timer)
  }
}

/** Rejects when the signal aborts; for a race. */
export const abortOf = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason)
    else signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
