import type { SupervisorExit } from '../supervisor/link.ts'

export type ProcessKind = 'exec' | 'shell' | 'process'

/** How a sandbox went from which nobody could tell the end of a process. */
export type Gone = 'lost' | 'oom' | 'stopped'

/**
 * Which processes of a sandbox run, for the activity report [C-51] and the limit of parallel execs [C-64], and how each has ended,
 * told once. A sandbox has one for each link, because a stop ends every process together with its link.
 */
export interface ProcessTracker {
  /** A process is about to start. False when this id runs already (the start will attach). Throws RATE_LIMITED above the limit. */
  begin(id: string, kind: ProcessKind): boolean
  /** It does not run, and there is no end to tell: it never began. */
  end(id: string): void
  /** The supervisor has said how it ended; each reader of the process hears that. */
  ended(exit: SupervisorExit, kind: ProcessKind): void
  /** A reader has gone: an end that was on its way to it is asked for. */
  left(id: string): void
  /** Hears of each end of a managed process, once; without an exit where nobody saw it. */
  onProcessEnd(listener: (id: string, exit: SupervisorExit | undefined, ageMs: number) => void): void
  /** The sandbox has gone, and with it whatever still ran. */
  gone(how: Gone): void
}
