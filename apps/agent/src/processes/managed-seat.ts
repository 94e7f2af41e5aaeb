import { BoxofficeError } from '@boxoffice/protocol'
import { isRun, processIdOf } from '../exec/managed-run.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { LineHolder, ManagedEntry } from './managed-entry.ts'

/** A socket's hold on one run; one at a time. */
export interface Seat {
  readonly processId: string
  readonly run: string
  /** Where a client goes on that does not say: the first line that nobody got; undefined where that is not known any more. */
  position: number | undefined
  /** What an earlier socket wrote has reached the process. */
  readonly before: Promise<void>
  /** `written` resolves when the process has what this one wrote. `lost`: its client may be back in a moment. */
  leave(end: { written: Promise<void>; lost: boolean }): void
}

export type SitOptions = {
  takeover: boolean
  /** Only this one. */
  run: string | undefined
  /** Its client goes on where it was: what is left of `run` is for it, also when that has ended meanwhile. */
  resumes: boolean
}

/** How long the output of a process whose client was lost is kept from being overwritten. */
export const LOST_CLIENT_MS = 30_000

/** The run that a client would have the seat at, who sits there being sent away. Throws PROCESS_NOT_RUNNING, ALREADY_ATTACHED [2-64, 2-66]. */
export const mayTake = (entry: ManagedEntry, { takeover, run, resumes }: SitOptions): string => {
  const { process_id: processId, run: current } = entry.file
  const name = JSON.stringify(processId)
  if (isLeftOver(entry, run) && resumes) return run
  if (run !== undefined && run !== current)
    throw new BoxofficeError('PROCESS_NOT_RUNNING', `run: process ${name} is not in that run any more; leave run out to attach to this one`)
  if (entry.state !== 'running')
    throw new BoxofficeError('PROCESS_NOT_RUNNING', `process ${name} has ended; GET /processes/${processId} tells how`)
  if (entry.holder !== undefined && !takeover)
    throw new BoxofficeError('ALREADY_ATTACHED', `process ${name} has another socket; pass takeover=true to replace it`)
  return current
}

/** Takes the one seat at a process, if one may. */
export const takeSeat = (sandbox: Sandbox, entry: ManagedEntry, holder: LineHolder, options: SitOptions): Seat => {
  const { process_id: processId } = entry.file
  const of = mayTake(entry, options)
  if (isLeftOver(entry, of)) return endedSeat(processId, of)
  const before = entry.holder
  entry.holder = holder
  clearTimeout(entry.timer)
  before?.takenOver()
  // An ended run's seat says nothing about the next one.
  return {
    processId,
    run: of,
    before: entry.written,
    get position() {
      return entry.file.run === of ? entry.position : undefined
    },
    set position(position) {
      if (entry.file.run === of) entry.position = position
    },
    leave: ({ written, lost }) => {
      if (entry.file.run !== of) return
      entry.written = written
      if (entry.holder !== holder) return
      entry.holder = undefined
      if (entry.state === 'running') letFlow(sandbox, entry, lost ? LOST_CLIENT_MS : 0)
    },
  }
}

/** With nobody to read it the process is not held up: the last MiB of its output is kept, and older output gives way. */
export const letFlow = ({ link }: Sandbox, entry: ManagedEntry, afterMs: number): void => {
  const { run } = entry.file
  const flow = (): void => void link.call('detach', { id: run, detach: true }).catch(() => {})
  clearTimeout(entry.timer)
  if (afterMs === 0) return flow()
  entry.timer = setTimeout(flow, afterMs)
  entry.timer.unref()
}

/** Whether it is one of the process's runs that have ended. */
const isLeftOver = ({ file, state }: ManagedEntry, run: string | undefined): run is string =>
  run !== undefined && (run !== file.run || state === 'waiting' || state === 'exited') && isRun(run) && processIdOf(run) === file.process_id

/** A run that has ended is nobody's: what it left is read by whoever asks for it. */
const endedSeat = (processId: string, run: string): Seat => ({
  processId,
  run,
  position: undefined,
  before: Promise.resolve(),
  leave() {},
})
