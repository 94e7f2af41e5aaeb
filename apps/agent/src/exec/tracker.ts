import { BoundedCache } from '@boxoffice/kit/bounded-cache'
import { BoxofficeError } from '@boxoffice/protocol'
import type { ProcessKind, ProcessTracker } from '../sandbox/process-tracker.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { SupervisorExit, SupervisorLink } from '../supervisor/link.ts'
import { ProcessList } from '../supervisor/payloads.ts'
import { exitFact, unseenExitFact } from './exit.ts'
import { isRun } from './managed-run.ts'
import { parseMeta } from './meta.ts'

/** As many as the supervisor keeps records of. */
const REPORTED_ENDS = 1000
const LOOK_AFTER_MS = 1000

/**
 * A tracker of the processes behind this link of the sandbox. The supervisor's own list is the authority and is read again at every
 * connection, so an agent restart loses nothing. `adopted`: the link is to a supervisor of an earlier run of the agent, whose processes
 * may be running or have ended in the meantime.
 */
export const createTracker = (sandbox: Sandbox, link: SupervisorLink, { adopted }: { adopted: boolean }): ProcessTracker => {
  const running = new Map<string, { kind: ProcessKind; release: () => void; since: number; isCertain: boolean }>()
  const reportedEnds = new BoundedCache<string, string>(REPORTED_ENDS)
  const listeners = new Set<Parameters<ProcessTracker['onProcessEnd']>[0]>()
  let execs = 0
  /** What is known is all there is: what begins from now on is ours, and nobody else has told of it. */
  let complete = !adopted
  let looking: NodeJS.Timeout | undefined

  const add = (id: string, kind: ProcessKind, isCertain: boolean): void => {
    if (running.has(id)) return
    running.set(id, { kind, release: sandbox.activity.run(), since: performance.now(), isCertain })
    if (kind === 'exec') execs++
  }

  const end = (id: string): void => {
    const entry = running.get(id)
    if (entry === undefined) return
    running.delete(id)
    if (entry.kind === 'exec') execs--
    entry.release()
  }

  /** Ends that are off the count and have not been told yet. */
  let unreported: (() => void)[] = []
  const tellAll = (): void => {
    const ends = unreported
    unreported = []
    for (const tell of ends) tell()
  }

  /** Off the count at once. The end of an exec is told when its response, which follows this call, has been written. */
  const ended = (exit: SupervisorExit, reported: ProcessKind, ageMs = 0): void => {
    const entry = running.get(exit.id)
    end(exit.id)
    const kind = entry?.kind ?? reported
    unreported.push(() => tell(exit, { kind, isCertain: entry?.isCertain === true, ageMs }))
    if (kind === 'process') tellAll()
    // An immediate comes before the next read of any socket: who has the response finds the event.
    else if (unreported.length === 1) setImmediate(tellAll)
  }

  const tell = (exit: SupervisorExit, { kind, isCertain, ageMs }: { kind: ProcessKind; isCertain: boolean; ageMs: number }): void => {
    // An id may be used again when its record is gone; one end, told to several readers or listed, reads the same.
    const summary = `${exit.reason} ${exit.code} ${exit.signal} ${exit.duration_ms} ${exit.stdout_bytes} ${exit.stderr_bytes}`
    if (reportedEnds.get(exit.id) === summary) return
    reportedEnds.set(exit.id, summary)
    const fact = exitFact(kind, exit)
    sandbox.note(isCertain ? fact : { ...fact, recovered: true }, ageMs)
    if (kind === 'process') for (const listener of listeners) listener(exit.id, exit, ageMs)
  }

  const readAgain = async (): Promise<void> => {
    const askedAt = performance.now()
    const { processes } = ProcessList.parse(await link.call('list', { meta: true }))
    const ids = new Set(processes.map(({ id }) => id))
    for (const { id, meta, state, exit, ended_ms: at } of processes) {
      const { kind } = parseMeta(meta)
      if (state === 'running') add(id, kind, true)
      else if (exit != null) ended(exit, kind, at == null ? 0 : Date.now() - at)
      else end(id)
    }
    for (const [id, { since }] of running) if (since < askedAt && !ids.has(id)) end(id)
    complete = true
  }

  /** A connection that breaks again is read again at the next one. */
  const onConnected = (connected: boolean): void => {
    if (connected) readAgain().catch(() => {})
  }

  // Of an id that is not known yet, the list that is being read will tell.
  link.onEnded((exit) => {
    const entry = running.get(exit.id)
    if (entry !== undefined || complete) ended(exit, entry?.kind ?? (isRun(exit.id) ? 'process' : 'exec'))
  })
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
      add(id, kind, complete)
      return true
    },
    end,
    ended,
    left(id) {
      if (!running.has(id) || looking !== undefined) return
      looking = setTimeout(() => {
        looking = undefined
        onConnected(link.connected)
      }, LOOK_AFTER_MS)
      looking.unref()
    },
    onProcessEnd: (listener) => void listeners.add(listener),
    gone(how) {
      clearTimeout(looking)
      tellAll()
      for (const [id, { kind }] of [...running]) {
        end(id)
        sandbox.note(unseenExitFact(kind, id, how))
        if (kind === 'process') for (const listener of listeners) listener(id, undefined, 0)
      }
    },
  }
}
