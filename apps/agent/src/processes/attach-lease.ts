import { BoxofficeError } from '@boxoffice/protocol'
import { isRun, processIdOf } from '../exec/managed-run.ts'
import type { AttachLease, AttachOptions, LeaseHolder } from '../sandbox/managed-processes.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { ManagedEntry } from './managed-entry.ts'

/** How long the output of a process whose client was lost is kept from being overwritten. */
export const LOST_CLIENT_MS = 30_000

/** The run that a client would get a lease of, the present holder being sent away. Throws PROCESS_NOT_RUNNING, ALREADY_ATTACHED [2-64, 2-66]. */
export const attachable = (entry: ManagedEntry, { takeover, run, resumes }: AttachOptions): string => {
  const { process_id: processId, run: current } = entry.record
  const name = JSON.stringify(processId)
  if (isLeftOver(entry, run) && resumes) return run
  if (run !== undefined && run !== current)
    throw new BoxofficeError('PROCESS_NOT_RUNNING', `run: process ${name} is not in that run any more; leave run out to attach to this one`)
  if (entry.state.name !== 'running')
    throw new BoxofficeError('PROCESS_NOT_RUNNING', `process ${name} has ended; GET /processes/${processId} tells how`)
  if (entry.holder !== undefined && !takeover)
    throw new BoxofficeError('ALREADY_ATTACHED', `process ${name} has another socket; pass takeover=true to replace it`)
  return current
}

/** Takes the one lease of a process. Throws as `attachable` does. */
export const takeLease = (sandbox: Sandbox, entry: ManagedEntry, holder: LeaseHolder, options: AttachOptions): AttachLease => {
  const { process_id: processId } = entry.record
  const of = attachable(entry, options)
  if (isLeftOver(entry, of)) return endedLease(processId, of)
  const before = entry.holder
  entry.holder = holder
  clearTimeout(entry.timer)
  before?.takenOver()
  // The lease of an ended run says nothing about the next one.
  return {
    processId,
    run: of,
    before: entry.written,
    get position() {
      return entry.record.run === of ? entry.position : undefined
    },
    set position(position) {
      if (entry.record.run === of) entry.position = position
    },
    leave: ({ written, lost }) => {
      if (entry.record.run !== of) return
      entry.written = written
      if (entry.holder !== holder) return
      entry.holder = undefined
      if (entry.state.name === 'running') letFlow(sandbox, entry, lost ? LOST_CLIENT_MS : 0)
    },
  }
}

/** With nobody to read it the process is not held up: the last MiB of its output is kept, and older output gives way. */
export const letFlow = ({ link }: Sandbox, entry: ManagedEntry, afterMs: number): void => {
  const { run } = entry.record
  const flow = (): void => void link.call('detach', { id: run, detach: true }).catch(() => {})
  clearTimeout(entry.timer)
  if (afterMs === 0) return flow()
  entry.timer = setTimeout(flow, afterMs)
  entry.timer.unref()
}

/** Whether it is one of the process's runs that have ended. */
const isLeftOver = ({ record, state }: ManagedEntry, run: string | undefined): run is string =>
  run !== undefined &&
  (run !== record.run || state.name === 'waiting' || state.name === 'exited') &&
  isRun(run) &&
  processIdOf(run) === record.process_id

/** A run that has ended is nobody's: what it left is read by whoever asks for it. */
const endedLease = (processId: string, run: string): AttachLease => ({
  processId,
  run,
  position: undefined,
  before: Promise.resolve(),
  leave() {},
})
