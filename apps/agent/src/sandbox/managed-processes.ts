import type { ManagedProcess, StartProcessRequest } from '@boxoffice/protocol'
import type { z } from 'zod'

/** The managed processes of one sandbox (contract 4.5): named, long-lived, started again as they were asked to be. */
export interface ManagedProcesses {
  start(request: z.output<typeof StartProcessRequest>, signal: AbortSignal): Promise<ManagedProcess>
  /** `asleep`: the supervisor cannot be asked now, so that what it alone knows is told as it was told last. */
  list(options?: { asleep: boolean }): Promise<ManagedProcess[]>
  /** Throws PROCESS_NOT_FOUND. */
  get(processId: string): Promise<ManagedProcess>
  /** Resolves when it has ended; one that is not there, or has ended, is fine. */
  stop(processId: string): Promise<void>
  /** The run that `attach` would give a lease of. Throws PROCESS_NOT_FOUND, PROCESS_NOT_RUNNING, ALREADY_ATTACHED [2-64, 2-66]. */
  attachable(processId: string, options: AttachOptions): string
  /** Throws the same. */
  attach(processId: string, holder: LeaseHolder, options: AttachOptions): AttachLease
  /** Knows what an earlier run of the agent has started. */
  adopt(): void
}

/** The socket that has a process's lines. */
export interface LeaseHolder {
  /** Another one has them now. */
  takenOver(): void
}

/** A socket's hold on one run; one at a time. */
export interface AttachLease {
  readonly processId: string
  readonly run: string
  /** Where a client goes on that does not say: the first line that nobody got; undefined where that is not known any more. */
  position: number | undefined
  /** What an earlier socket wrote has reached the process. */
  readonly before: Promise<void>
  /** `written` resolves when the process has what this one wrote. `lost`: its client may be back in a moment. */
  leave(end: { written: Promise<void>; lost: boolean }): void
}

export type AttachOptions = {
  takeover: boolean
  /** Only this one. */
  run: string | undefined
  /** Its client goes on where it was: what is left of `run` is for it, also when that has ended meanwhile. */
  resumes: boolean
}
