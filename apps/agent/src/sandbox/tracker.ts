import { BoxofficeError } from '@boxoffice/protocol'
import type { SupervisorLink } from '../supervisor/link.ts'
import { ProcessList } from '../supervisor/payloads.ts'
import { parseMeta } from './meta.ts'
import type { Sandbox } from './sandbox.ts'

/**
 * Which processes of a sandbox run, for the activity report [C-51] and the limit of parallel execs [C-64]. Only a count: the
 * supervisor's own list is the authority and is read again at every connection, so an agent restart loses nothing.
 */
export interface ProcessTracker {
  /** A process is about to start. False when this id runs already (the start will attach). Throws RATE_LIMITED above the limit. */
  begin(id: string, kind: 'exec' | 'shell'): boolean
  end(id: string): void
}

/** By link: a stop ends every process together with its link. */
const trackers = new WeakMap<SupervisorLink, ProcessTracker>()

/** The tracker of a sandbox, made at the first call; also called when a sandbox is adopted, whose processes may be running. */
export const processTracker = (sandbox: Sandbox): ProcessTracker => {
  const { link } = sandbox
  const known = trackers.get(link)
  if (known !== undefined) return known
  const tracker = createTracker(sandbox, link)
  trackers.set(link, tracker)
  return tracker
}

const createTracker = (sandbox: Sandbox, link: SupervisorLink): ProcessTracker => {
  const running = new Map<string, { kind: 'exec' | 'shell'; release: () => void; since: number }>()
  let execs = 0

  const add = (id: string, kind: 'exec' | 'shell'): void => {
    if (running.has(id)) return
    running.set(id, { kind, release: sandbox.activity.run(), since: performance.now() })
    if (kind === 'exec') execs++
  }

  const end = (id: string): void => {
    const entry = running.get(id)
    if (entry === undefined) return
    running.delete(id)
    if (entry.kind === 'exec') execs--
    entry.release()
  }

  const readAgain = async (): Promise<void> => {
    const asked = performance.now()
    const { processes } = ProcessList.parse(await link.call('list', { meta: true }))
    const alive = processes.filter(({ state }) => state === 'running')
    const ids = new Set(alive.map(({ id }) => id))
    for (const [id, { since }] of running) if (since < asked && !ids.has(id)) end(id)
    for (const { id, meta } of alive) add(id, parseMeta(meta).kind)
  }

  /** A connection that breaks again is read again at the next one. */
  const onConnected = (connected: boolean): void => {
    if (connected) readAgain().catch(() => {})
  }

  link.onEnded(({ id }) => end(id))
  link.onConnection(onConnected)
  onConnected(link.connected)

  return {
    begin(id, kind) {
      if (running.has(id)) return false
      const { max_execs } = sandbox.profile
      if (kind === 'exec' && execs >= max_execs) {
        throw new BoxofficeError('RATE_LIMITED', `The sandbox runs ${execs} execs, as many as its profile allows; wait for one to end`, {
          retryAfter: 1,
          details: { limit: 'max_execs', max_execs },
        })
      }
      add(id, kind)
      return true
    },
    end,
  }
}
